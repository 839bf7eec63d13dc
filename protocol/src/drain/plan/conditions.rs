//! Conditions of a drain, and its end.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainConditionType, DrainVerdict, DrainedNodePhase, NodeEvacuationStatus, condition_time,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{status::put, time::stamp};

fn set(
    status: &mut NodeEvacuationStatus,
    kind: DrainConditionType,
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

/// Sets the condition Paused. A drain that was never paused has none.
pub(super) fn set_paused(status: &mut NodeEvacuationStatus, paused: bool, now: DateTime<Utc>) {
    let known = status.conditions.iter().any(|c| c.type_ == DrainConditionType::Paused.as_str());
    if paused || known {
        let reason = if paused { "PausedBySpec" } else { "Resumed" };
        set(status, DrainConditionType::Paused, paused, reason, "", now);
    }
}

/// Ends a drain whose selector picks no node. A node that matches later is not drained.
pub(super) fn end_without_nodes(status: &mut NodeEvacuationStatus, now: DateTime<Utc>) {
    let message = "no node matches the selector";
    status.verdict = Some(DrainVerdict::Stuck);
    status.message = Some(message.to_owned());
    set(status, DrainConditionType::Failed, true, "NoNodes", message, now);
    set(status, DrainConditionType::Finished, true, "NoNodes", message, now);
    status.finish_time = Some(stamp(now));
}

/// Ends a drain whose nodes have all come to their end. A drain that follows a selector goes on.
pub(super) fn end(status: &mut NodeEvacuationStatus, follows: bool, now: DateTime<Utc>) {
    let failed: Vec<String> = status
        .nodes
        .iter()
        .filter(|node| matches!(node.phase, DrainedNodePhase::Failed | DrainedNodePhase::Withdrawn))
        .map(|node| format!("{}: {}", node.name, node.message.as_deref().unwrap_or_default()))
        .collect();
    let moved = match status.pods.gone {
        1 => "1 pod is gone".to_owned(),
        gone => format!("{gone} pods are gone"),
    };
    let (verdict, message) = if let Some(first) = failed.first() {
        let more = match failed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(", and {more} more nodes"),
        };
        (DrainVerdict::Stuck, format!("{moved}; not drained: {first}{more}"))
    } else {
        (DrainVerdict::Drained, moved)
    };
    status.verdict = Some(verdict);
    status.message = Some(message.clone());
    status.expected_completion = None;
    if follows {
        return;
    }
    let withdrawn = status.nodes.iter().any(|node| node.phase == DrainedNodePhase::Withdrawn);
    let (kind, reason) = match (failed.is_empty(), withdrawn) {
        (true, _) => (DrainConditionType::Drained, "Drained"),
        (false, true) => (DrainConditionType::Failed, "Uncordoned"),
        (false, false) => (DrainConditionType::Failed, "NodesLeft"),
    };
    set(status, kind, true, reason, &message, now);
    set(status, DrainConditionType::Finished, true, reason, &message, now);
    status.finish_time = Some(stamp(now));
}
