//! The entry that stands for a caller in an Evacuation.

use chrono::TimeDelta;
use evacuation_api::Requester;

use super::{Facts, counts, is_forced};
use crate::{call::Operation, config::GraceSource, pod::chosen_grace};

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
        grace_period_seconds: grace(facts),
        budget_patience_seconds: counts(facts).then(|| row.blocked_patience_seconds.into()),
        ..Requester::named(row.entry_name())
    }
}

/// Returns the caller's grace period, if it counts. That of a forced deletion does not: such a call comes
/// here only when the caller may not force it.
fn grace(facts: &Facts<'_>) -> Option<i64> {
    if facts.row.grace_period == GraceSource::Pod || is_forced(facts.call, facts.pod) {
        return None;
    }
    let chosen = chosen_grace(facts.pod, facts.call.grace_period_seconds).filter(|grace| *grace >= 0);
    // Kubernetes has no maximum. An Evacuation has: 68 years.
    chosen.map(|grace| grace.min(i32::MAX.into()))
}
