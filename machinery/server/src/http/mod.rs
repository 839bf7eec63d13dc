//! HTTP: from a request to the verb of a resource and back.
//!
//! # Flow
//!
//! [`handle`] is the only route. It reads the purpose of the request (`request_info`, `params`),
//! authenticates and authorises the caller, waits for a permit of each resource that the request uses
//! (`fairness`), reads the body (`input`), and calls `dispatch`. `dispatch` picks the handler: `read`,
//! `write` or `watch` for resources, `other` for every other path. The handler's result is rendered
//! (`accept`, `render`), encoded (`encoding`) and sent (`reply`, `reply_body`; `websocket` for watches of
//! browsers). A failure becomes a `metav1.Status`. What happened is recorded (`trail`) and traced (`spans`),
//! if the server is to do so.

mod accept;
mod caller;
mod chain;
mod delete_options;
mod dispatch;
mod encoding;
mod exchange;
mod fairness;
pub(crate) mod fuzzing;
mod gzip_stream;
mod health;
mod input;
mod list_options;
mod other;
mod params;
mod read;
mod render;
mod rendered;
mod reply;
mod reply_body;
mod request_info;
mod request_labels;
mod spans;
mod trail;
mod watch;
mod websocket;
mod write;
mod write_options;

use machinery_validation::FieldError;

pub(crate) use self::{
    caller::Rank, chain::handle, exchange::PeerCertificates, fairness::Limiters, health::Check,
    rendered::Rendered,
};
use crate::ApiError;

/// The failure of bad options such as `ListOptions`, in upstream's words.
fn invalid_options(kind: &'static str, errors: &[FieldError]) -> ApiError {
    ApiError::InvalidOptions { kind, errors: errors.to_vec() }
}
