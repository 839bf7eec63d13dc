//! The pace of asking: being asked takes no service down.
//!
//! # Rules
//!
//! An app that accepts stops taking work. So of the pods of one PodDisruptionBudget only as many are asked
//! at a time as it allows:
//!
//! 1. A pod has its turn while the budget's pods that are ready and not asked, without it, are as many as the
//!    budget wants ([`room`]). Pods that were asked and are not gone do not count. One that refused does.
//! 2. A responder that is registered with `servesUntilTermination` is asked at once, and so is a pod that
//!    is not ready: neither takes anything away.
//! 3. A deletion by the controller that owns the pod (a scale-down, a rollout) is asked at once: that
//!    controller has its own pace.
//! 4. Before a deadline that deletes the pod, it is asked in time for all of its responders to answer.
//! 5. The members of a PodGroup that move together are asked together.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, DeadlineAction, EvacuationStatus, Policy, Requester, ResponderState, ResponderStatus,
};

use crate::{pod::LivePod, pod_group::disrupts};

/// The time at which the next responder may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once.
    Now,
    /// As soon as the pod's budgets have room, and at the latest at that time.
    WithRoom(Option<DateTime<Utc>>),
}

/// Returns the time at which an Inactive responder may be asked.
pub(crate) fn turn(
    next: &ResponderStatus,
    all: &[ResponderStatus],
    requesters: &[Requester],
    policy: &Policy,
    pod: &LivePod,
) -> Turn {
    let takes_nothing = next.serves_until_termination || !pod.ready || all.iter().any(stops_work);
    if takes_nothing || !requesters.iter().any(|entry| disrupts(&entry.name)) {
        return Turn::Now;
    }
    let mut deadlines = policy.deadlines.iter();
    let deletion = deadlines.find(|deadline| !deadline.reached && deadline.action == DeadlineAction::Delete);
    let undone = all.iter().filter(|responder| !responder.state.is_done());
    let seconds = undone.fold(0_i64, |sum, responder| sum.saturating_add(responder.timeout_seconds));
    let time = TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::MAX);
    let latest =
        deletion.map(|deadline| deadline.time.0.checked_sub_signed(time).unwrap_or(DateTime::<Utc>::MIN_UTC));
    Turn::WithRoom(latest)
}

/// Returns true when a responder of the pod was asked that may have stopped the pod's work, and has not
/// refused.
pub fn may_have_stopped(status: &EvacuationStatus) -> bool {
    let refuses = |responder: &ResponderStatus| {
        responder.state == ResponderState::Active && responder.answer == Some(Answer::Refuse)
    };
    status.responders.iter().flatten().any(|responder| stops_work(responder) && !refuses(responder))
}

/// Returns the number of further pods of a budget that may be asked: of the pods that it selects, `serving`
/// are ready, do not terminate and were not asked.
pub fn room(serving: usize, desired_healthy: i32) -> i64 {
    i64::try_from(serving).unwrap_or(i64::MAX).saturating_sub(desired_healthy.into())
}

/// Returns true when the responder was asked and the pod may stop its work on it.
fn stops_work(responder: &ResponderStatus) -> bool {
    responder.active_time.is_some() && !responder.serves_until_termination
}

#[cfg(test)]
mod tests;
