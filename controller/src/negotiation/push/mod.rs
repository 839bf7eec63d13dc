//! Asking apps over HTTP: whom, where, and what comes of it.

mod address;
mod deliveries;
mod places;
mod pusher;
mod service;
mod tokens;
mod transport;

pub(crate) use deliveries::{Deliveries, Next};
pub(crate) use pusher::{PushError, Pusher};
