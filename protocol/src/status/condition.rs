//! Setting conditions as Kubernetes does: one per type, the transition time changes with the status.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, EvacuationStatus, condition_time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Returns true when the Evacuation has ended: only acknowledgements of a cancellation follow.
pub fn is_finished(status: &EvacuationStatus) -> bool {
    status.is_true(ConditionType::Finished)
}

/// Returns the reason of the condition `Finished`, such as `Evicted` or `Canceled`.
pub fn finished_reason(status: &EvacuationStatus) -> Option<&str> {
    status.true_condition(ConditionType::Finished).map(|condition| condition.reason.as_str())
}

/// Sets a condition. Its transition time stays unless its status changes.
pub(crate) fn set(
    status: &mut EvacuationStatus,
    kind: ConditionType,
    value: bool,
    reason: &str,
    message: &str,
    now: DateTime<Utc>,
) {
    let new = Condition {
        type_: kind.as_str().to_owned(),
        status: if value { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: condition_time(now),
        observed_generation: None,
    };
    put(&mut status.conditions, new);
}

/// Replaces the condition of the same type. Keeps the old transition time unless the status changes.
pub(crate) fn put(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}
