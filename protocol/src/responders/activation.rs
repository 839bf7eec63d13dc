//! Activation: the responders of a new Evacuation, and the step that makes one of them Active.

use chrono::{DateTime, Utc};
use evacuation_api::{
    BlockedReason, EvacuationStatus, RegistrationProblems, Requester, ResponderEntry, ResponderState,
    ResponderStatus, SELF_RESPONDER,
};

use super::{Registered, Turn, turn};
use crate::{
    pod::{LivePod, PodPhase},
    policy::{all_expired, forced, policy_at, rests},
    status::{Block, truncated},
    time::stamp,
};

/// Maximum number of names in [`RegistrationProblems::left_out`].
const NAMED_LEFT_OUT: usize = 16;

/// Reason of an Interrupted `self` that became Active while the pod's node was unreachable.
pub const NODE_UNREACHABLE: &str = "NodeUnreachable";

/// Fixes the responders of a new Evacuation and activates the first one.
///
/// `status` is the one that [`begin`](crate::begin) returned. `pod` is the target as it is now, and
/// `registered` is the result of [`registered_responders`](crate::registered_responders) for it.
///
/// # Guarantees
///
/// No responder becomes Active while every requester waits for a window, after a deadline, or when the pod
/// terminates or has ended. `self` does not become Active when no container of the pod runs. `in_budget` is
/// true when a PodDisruptionBudget may select the pod: a responder that has to wait for room there does not
/// become Active either. The controller then takes the next step.
pub fn fix_responders(
    status: &mut EvacuationStatus,
    requesters: &[Requester],
    pod: &LivePod,
    registered: &Registered,
    in_budget: bool,
    now: DateTime<Utc>,
) {
    let policy = policy_at(requesters, status, now);
    let waits = rests(requesters, status, &policy) || all_expired(requesters, &policy);
    let leaves = pod.phase == PodPhase::Terminal || pod.terminating_until.is_some();
    let mut responders: Vec<_> = registered.entries.iter().map(unasked).collect();
    status.registration = problems(registered);
    let has_turn = match responders.first().map(|first| turn(first, &responders, requesters, &policy, pod)) {
        Some(Turn::WithRoom(latest)) => !in_budget || latest.is_some_and(|latest| latest <= now),
        Some(Turn::Now) | None => true,
    };
    if !waits
        && !leaves
        && has_turn
        && forced(&policy).is_none()
        && let Some(first) = responders.first_mut().filter(|first| !has_no_container(first, pod))
    {
        activate(first, now);
        if let Some(block) = unreadable(status, first) {
            block.put(status, now);
        }
    }
    status.responders = Some(responders);
}

/// Makes a responder Active.
pub(crate) fn activate(responder: &mut ResponderStatus, now: DateTime<Utc>) {
    responder.state = ResponderState::Active;
    responder.active_time = Some(stamp(now));
}

/// Returns true when the responder is `self` and no container of its pod runs.
pub(crate) fn has_no_container(responder: &ResponderStatus, pod: &LivePod) -> bool {
    responder.name == SELF_RESPONDER && !pod.running_container
}

/// Returns the block by an unreadable annotation: `self` is Active, has not answered, and may be unable to.
pub(crate) fn unreadable(status: &EvacuationStatus, active: &ResponderStatus) -> Option<Block> {
    let problem = status.registration.as_ref()?.unreadable.as_deref()?;
    if active.name != SELF_RESPONDER || active.answer.is_some() {
        return None;
    }
    let message = format!("the annotation evacuation.dev/responders cannot be read: {problem}");
    Some(Block::responder(BlockedReason::UnreadableResponders, &active.name, &message))
}

fn unasked(entry: &ResponderEntry) -> ResponderStatus {
    ResponderStatus {
        name: entry.name.clone(),
        priority: entry.priority(),
        timeout_seconds: entry.timeout_seconds(),
        max_delay_seconds: entry.max_delay_seconds(),
        serves_until_termination: entry.serves_until_termination(),
        http: entry.http.clone(),
        service: entry.service.clone(),
        ..ResponderStatus::default()
    }
}

fn problems(registered: &Registered) -> Option<RegistrationProblems> {
    let problems = RegistrationProblems {
        unreadable: registered.unreadable.as_deref().map(truncated),
        left_out: registered.left_out.iter().take(NAMED_LEFT_OUT).cloned().collect(),
    };
    (problems != RegistrationProblems::default()).then_some(problems)
}

#[cfg(test)]
mod tests;
