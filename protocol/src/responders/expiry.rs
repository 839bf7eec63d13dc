//! Expiry of the time that a responder has for its answer.

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, ResponderStatus};

use crate::time::after;

/// Time at which an Active responder expires by its own times: its timeout, or the end of its delay. The
/// silence of a pushed responder counts from the first delivered question, so one that was not asked yet does
/// not expire.
pub(crate) fn expiry_time(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    match responder.answer {
        None => asked_since(responder).map(|since| after(since, responder.timeout_seconds)),
        Some(Answer::Delay) => responder.delay_until.map(|until| until.0),
        Some(Answer::Accept | Answer::Refuse) => None,
    }
}

/// Time from which the silence of an Active responder counts.
pub(crate) fn asked_since(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    let since = if responder.is_pushed() { responder.asked_time } else { responder.active_time };
    since.map(|time| time.0)
}
