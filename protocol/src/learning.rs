//! Who must learn of a cancellation, and for how long an object waits for that.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, EvacuationStatus, ResponderState, ResponderStatus};

use crate::time::after;

/// How long a deleted Evacuation waits for acknowledgements after it finished, in seconds.
pub const LEARNING_SECONDS: i64 = 30;

/// The responders that were asked before the Evacuation failed, and so must learn of its end. None when the pod went:
/// there is nothing left to undo.
pub fn asked_responders(status: &EvacuationStatus) -> Vec<&ResponderStatus> {
    if !status.is_true(ConditionType::Failed) {
        return Vec::new();
    }
    let all = status.responders.as_deref().unwrap_or_default();
    all.iter().filter(|r| r.state == ResponderState::Canceled && r.active_time.is_some()).collect()
}

/// Until when the responders that have not acknowledged the end are waited for; `None` when there are none.
pub(crate) fn learning_until(status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let missing = asked_responders(status).iter().any(|r| !r.cancellation_acknowledged);
    status.finish_time.filter(|_| missing).map(|time| after(time.0, LEARNING_SECONDS))
}

/// Whether a responder that was asked has not acknowledged the end yet and may still be waited for.
pub fn must_learn(status: &EvacuationStatus, now: DateTime<Utc>) -> bool {
    learning_until(status).is_some_and(|until| now < until)
}
