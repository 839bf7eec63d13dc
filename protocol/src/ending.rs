//! The end of an Evacuation, written once for all who can end it.

use chrono::{DateTime, Utc};
use evacuation_api::{
    BlockedReason, ConditionType, EvacuatedReason, EvacuationStatus, FailedReason, ResponderState,
};

use crate::{condition::set, time::stamp};

/// Ends it: the pod is gone or has ended.
pub(crate) fn succeed(
    status: &mut EvacuationStatus,
    reason: EvacuatedReason,
    message: &str,
    now: DateTime<Utc>,
) {
    set(status, ConditionType::Evacuated, true, reason.as_str(), message, now);
    finish(status, now);
}

/// Ends it: the pod is left alone.
pub(crate) fn fail(status: &mut EvacuationStatus, reason: FailedReason, message: &str, now: DateTime<Utc>) {
    set(status, ConditionType::Failed, true, reason.as_str(), message, now);
    finish(status, now);
}

/// Completes a status with the condition Evacuated or Failed: sets Finished, the time and the responders, and
/// clears Blocked.
///
/// Responders that are not done become Canceled. If the Evacuation failed, all that were asked become
/// Canceled, because they must learn that the pod stays: a responder that was too slow may have begun to
/// move.
pub(crate) fn finish(status: &mut EvacuationStatus, now: DateTime<Utc>) {
    let end = [ConditionType::Evacuated, ConditionType::Failed]
        .into_iter()
        .find_map(|kind| status.true_condition(kind).cloned());
    let Some(end) = end else { return };
    let failed = end.type_ == ConditionType::Failed.as_str();
    for responder in status.responders.iter_mut().flatten() {
        let cancel = match responder.state {
            ResponderState::Inactive | ResponderState::Active => true,
            ResponderState::Completed => failed,
            ResponderState::Interrupted => failed && responder.active_time.is_some(),
            ResponderState::Canceled => false,
        };
        if cancel {
            responder.state = ResponderState::Canceled;
        }
    }
    unblock(status, now);
    if let Some(eviction) = &mut status.eviction {
        eviction.in_flight = false;
        eviction.next_attempt_time = None;
    }
    set(status, ConditionType::Finished, true, &end.reason, &end.message, now);
    status.finish_time.get_or_insert(stamp(now));
}

/// Says that nothing holds the eviction back, if something did.
pub(crate) fn unblock(status: &mut EvacuationStatus, now: DateTime<Utc>) {
    if status.condition(ConditionType::Blocked).is_some_and(|c| c.status != "False") {
        set(status, ConditionType::Blocked, false, BlockedReason::NotBlocked.as_str(), "", now);
    }
    if let Some(eviction) = &mut status.eviction {
        eviction.blocked_by.clear();
    }
}
