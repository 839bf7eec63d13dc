//! Expiry of a responder's time to answer.

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, ResponderStatus};

use crate::time::after;

/// Returns the time at which an Active responder is passed over by its own times: its timeout, or the end of
/// its delay.
pub(crate) fn lapse_time(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    match responder.answer {
        None => responder.active_time.map(|since| after(since.0, responder.timeout_seconds)),
        Some(Answer::Delay) => responder.delay_until.map(|until| until.0),
        Some(Answer::Accept | Answer::Refuse) => None,
    }
}
