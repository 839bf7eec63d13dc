//! Acknowledgements of a cancellation: the responders that owe one, and the time that an object waits for
//! them.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, EvacuationStatus, ResponderState, ResponderStatus};

use crate::time::after;

/// Maximum time for which a deleted Evacuation waits for acknowledgements after it finished, in seconds.
pub const LEARNING_SECONDS: i64 = 30;

/// Returns the responders that were asked before the Evacuation failed, and so must learn of its end. None
/// when the pod is gone: nothing is left to undo.
pub fn asked_responders(status: &EvacuationStatus) -> Vec<&ResponderStatus> {
    if !status.is_true(ConditionType::Failed) {
        return Vec::new();
    }
    let all = status.responders.as_deref().unwrap_or_default();
    all.iter().filter(|r| r.state == ResponderState::Canceled && r.active_time.is_some()).collect()
}

/// Returns the time until which the object waits for acknowledgements. `None` when none is missing.
pub(crate) fn learning_until(status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let missing = asked_responders(status).iter().any(|r| !r.cancellation_acknowledged);
    status.finish_time.filter(|_| missing).map(|time| after(time.0, LEARNING_SECONDS))
}

/// Returns true while the object waits for an acknowledgement.
pub fn must_learn(status: &EvacuationStatus, now: DateTime<Utc>) -> bool {
    learning_until(status).is_some_and(|until| now < until)
}
