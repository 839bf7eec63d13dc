//! The end of an Evacuation: the conditions and the time that every end writes.

use chrono::{DateTime, Utc};
use evacuation_api::{
    BlockedReason, ConditionType, EvacuatedReason, EvacuationStatus, FailedReason, ResponderState,
};

use super::condition::{is_finished, set};
use crate::time::stamp;

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

/// Returns the status of an Evacuation that is canceled for that reason, in words. One that has ended stays
/// as it is.
///
/// The caller must have checked that no eviction is in flight or accepted:
/// [`check_requester_edit`](crate::check_requester_edit) or [`delete`](crate::delete).
#[must_use]
pub fn cancel(status: &EvacuationStatus, why: &str, now: DateTime<Utc>) -> EvacuationStatus {
    let mut status = status.clone();
    if !is_finished(&status) {
        fail(&mut status, FailedReason::Canceled, why, now);
    }
    status
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
        eviction.budget_blocked_time = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{asking, at, responder};
    use evacuation_api::ResponderState::*;

    #[test]
    fn everyone_who_has_not_been_passed_over_is_canceled() {
        let mut status = asking().status.unwrap();
        let before = [Interrupted, Completed, Active, Inactive];
        status.responders = Some(before.map(|s| responder(&format!("a.b/{s:?}"), s)).to_vec());
        let status = cancel(&status, "the last requester left", at(5));
        let after: Vec<_> = status.responders.iter().flatten().map(|r| r.state).collect();
        assert_eq!(after, [Interrupted, Canceled, Canceled, Canceled]);
        assert_eq!(status.finish_time, Some(at(5).into()));
        let conditions: Vec<_> = status
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str()))
            .collect();
        assert_eq!(conditions, [("Failed", "True", "Canceled"), ("Finished", "True", "Canceled")]);
        assert_eq!(status.conditions[0].message, "the last requester left");
    }

    #[test]
    fn what_has_ended_cannot_be_canceled_again() {
        let once = cancel(&asking().status.unwrap(), "one", at(5));
        assert_eq!(cancel(&once, "two", at(6)), once);
    }
}
