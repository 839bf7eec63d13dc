//! HTTP: from a request to the verb of a resource and back.
//!
//! # Flow
//!
//! [`handle`] is the only route. It reads the purpose of the request (`request_info`, `params`),
//! authenticates and authorises the caller, reads the body (`input`), takes a permit of each resource that
//! the request uses (`limiters`), and calls `dispatch`. `dispatch` picks the handler: `read`, `write` or
//! `watch` for resources, `other` for every other path. The handler's result is rendered (`accept`,
//! `render`), encoded (`encoding`) and sent (`reply`, `reply_body`; `websocket` for watches of browsers). A
//! failure becomes a `metav1.Status`.

mod accept;
mod caller;
mod chain;
mod delete_options;
mod dispatch;
mod encoding;
mod exchange;
pub(crate) mod fuzzing;
mod gzip_stream;
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
mod websocket;
mod write;
mod write_options;

use machinery_validation::FieldError;

pub(crate) use self::{chain::handle, exchange::PeerCertificates, health::Check, limiters::Limiters};
use crate::{ApiError, Cause, Reason};

/// The failure of bad options such as `ListOptions`, in upstream's words.
fn invalid_options(kind: &str, errors: &[FieldError]) -> ApiError {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let all = match all.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    let cause = |error: &FieldError| Cause {
        reason: error.kind.as_str().to_owned(),
        message: error.body(),
        field: error.field.to_string(),
    };
    ApiError::Status {
        reason: Reason::Invalid,
        message: format!("{kind}.meta.k8s.io \"\" is invalid: {all}"),
        causes: errors.iter().map(cause).collect(),
        retry_after_seconds: None,
    }
}
