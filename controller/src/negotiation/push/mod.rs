//! Asking apps over HTTP: whom, where, and what comes of it.

mod address;
mod backing;
mod course;
mod deliveries;
mod pusher;
mod received;
mod relay;
mod reply;
mod sent_body;
mod service;
#[cfg(test)]
pub(crate) mod testing;
mod tokens;
mod transport;

pub(crate) use course::{Course, PushError};
pub(crate) use deliveries::{Deliveries, Next, PostEnd};
pub(crate) use pusher::{ClusterView, Pusher, Reply};
pub(crate) use reply::read_reply;
