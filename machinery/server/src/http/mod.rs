//! HTTP: from a request to the verb of a resource and back.
//!
//! # Flow
//!
//! [`handle`] is the only route. It reads the purpose of the request (`request_info`, `params`),
//! authenticates and authorises the caller, reads the body (`input`), takes a permit of each resource that
//! the request uses (`limiters`), and calls `dispatch`. `dispatch` picks the handler: `read`, `write` or
//! `watch` for resources, `other` for every other path. The handler's result is rendered (`accept`,
//! `render`), encoded (`encoding`) and sent (`reply`, `reply_body`). A failure becomes a `metav1.Status`.

mod accept;
mod caller;
mod chain;
mod delete_options;
mod dispatch;
mod encoding;
mod exchange;
mod health;
mod input;
mod limiter;
mod limiters;
mod list_options;
mod other;
mod params;
mod read;
mod render;
mod reply;
mod reply_body;
mod request_info;
mod request_labels;
mod watch;
mod write;
mod write_options;

use machinery_validation::FieldError;

pub(crate) use self::{chain::handle, exchange::PeerCertificates, health::Check, limiters::Limiters};
use crate::ApiError;

/// The failure of bad options such as `ListOptions`, in upstream's words.
fn invalid_options(kind: &'static str, errors: &[FieldError]) -> ApiError {
    ApiError::InvalidOptions { kind, errors: errors.to_vec() }
}
