//! The entry that stands for a caller in an Evacuation.

use chrono::TimeDelta;
use evacuation_api::{CallerRow, DeadlineAction, GraceSource, Operation, RefusalPolicy, Requester};
use k8s_openapi::api::core::v1::Pod;

use super::{Facts, counts, is_forced};
use crate::{
    call::Call,
    pod::{chosen_grace, own_grace},
};

/// Time by which the next try of a caller may come later than its Retry-After says, in seconds: the call, the
/// watch of the gateway, a busy machine.
const LATE_SECONDS: u32 = 5;

/// Returns the entry of the call: owned by the caller's user, named after its row.
pub(super) fn entry(facts: &Facts<'_>) -> Requester {
    let (call, row) = (facts.call, facts.row);
    let deadline = facts.now + TimeDelta::seconds(row.patience_seconds.into());
    let reason = match call.operation {
        Operation::Evict => "EvictionRequested",
        Operation::Delete => "DeletionRequested",
    };
    Requester {
        owner: call.user.name.clone(),
        reason: Some(reason.to_owned()),
        message: Some(format!("{} asked to {} the pod", call.user.name, call.operation.verb())),
        on_refusal: Some(row.on_refusal),
        deadline: Some(deadline.into()),
        at_deadline: Some(row.at_deadline),
        grace_period_seconds: grace(call, facts.pod, row),
        budget_patience_seconds: counts(facts).then(|| row.blocked_patience_seconds.into()),
        caller_deletes_within_seconds: returns_within(facts),
        ..Requester::named(row.entry_name())
    }
}

/// Returns the time within which the caller of a deletion tries again, in seconds. That try deletes the pod
/// once every responder is done. `None` for a caller that is not told when to try again, or whose try does
/// not pass then, or need not.
fn returns_within(facts: &Facts<'_>) -> Option<i64> {
    let (call, row) = (facts.call, facts.row);
    let passes = call.operation == Operation::Delete && !counts(facts);
    let leaves_it_to_the_controller =
        row.at_deadline != DeadlineAction::GiveUp || row.on_refusal == RefusalPolicy::Override;
    let returns = row.longest_retry_after() > 0 && !cuts_grace(call, facts.pod, row);
    (passes && returns && !leaves_it_to_the_controller)
        .then(|| (row.longest_retry_after() + LATE_SECONDS).into())
}

/// Returns true for a deletion whose own grace period is shorter than the pod's, and does not count.
///
/// Such a call must not repeat itself: a deletion of a pod that terminates shortens the grace period that
/// its app has.
pub(crate) fn cuts_grace(call: &Call, pod: &Pod, row: &CallerRow) -> bool {
    let chosen = chosen_grace(pod, call.grace_period_seconds);
    let is_shorter = chosen.is_some_and(|chosen| own_grace(pod).is_none_or(|own| chosen < own));
    call.operation == Operation::Delete && is_shorter && grace(call, pod, row) != chosen
}

/// Returns the caller's grace period, if it counts. That of a forced deletion does not: such a call comes
/// here only when the caller may not force it.
fn grace(call: &Call, pod: &Pod, row: &CallerRow) -> Option<i64> {
    if row.grace_period == GraceSource::Pod || is_forced(call, pod) {
        return None;
    }
    let chosen = chosen_grace(pod, call.grace_period_seconds).filter(|grace| *grace >= 0);
    // Kubernetes has no maximum. An Evacuation has: 68 years.
    chosen.map(|grace| grace.min(i32::MAX.into()))
}
