//! Conditions of a drain, and its end.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainConditionType, DrainVerdict, DrainedNode, DrainedNodePhase, NodeEvacuationStatus, condition_time,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::counts;
use crate::{
    drain::message::{message, message_parts},
    status::put,
    time::stamp,
};

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
    status.verdict = Some(DrainVerdict::Failed);
    status.message = Some(message.to_owned());
    set(status, DrainConditionType::Failed, true, "NoNodes", message, now);
    set(status, DrainConditionType::Finished, true, "NoNodes", message, now);
    status.finish_time = Some(stamp(now));
}

/// Ends a drain whose nodes have all come to their end. A drain that follows a selector goes on, and its
/// verdict is that of its nodes so far.
pub(super) fn end(status: &mut NodeEvacuationStatus, follows: bool, now: DateTime<Utc>) {
    let failed: Vec<&DrainedNode> = status.nodes.iter().filter(|node| node.phase.is_failure()).collect();
    let reasons: Vec<String> =
        failed.iter().map(|node| format!("{}: {}", node.name, parts(node).0)).collect();
    let deleted: Vec<String> = status
        .nodes
        .iter()
        .filter(|node| node.phase == DrainedNodePhase::Gone)
        .filter_map(|node| node.message.clone())
        .collect();
    let moved = counts::ended(&status.pods);
    let deleted = named(&deleted).map(|nodes| format!("; {nodes}")).unwrap_or_default();
    // The reason comes first: a table shows no more than that.
    let (verdict, text) = match named(&reasons) {
        Some(nodes) => (DrainVerdict::Failed, format!("not drained: {nodes}; {moved}{deleted}")),
        None => (DrainVerdict::Drained, format!("{moved}{deleted}")),
    };
    let message = message(&text, failed.first().and_then(|node| parts(node).1));
    status.verdict = Some(verdict);
    status.message = Some(message.clone());
    status.expected_completion = None;
    if follows {
        return;
    }
    let uncordoned =
        failed.iter().any(|node| node.phase == DrainedNodePhase::Withdrawn && node.deleted_time.is_none());
    let (kind, reason) = match (failed.is_empty(), uncordoned) {
        (true, _) => (DrainConditionType::Drained, "Drained"),
        (false, true) => (DrainConditionType::Failed, "Uncordoned"),
        (false, false) => (DrainConditionType::Failed, "NodesLeft"),
    };
    set(status, kind, true, reason, &message, now);
    set(status, DrainConditionType::Finished, true, reason, &message, now);
    status.finish_time = Some(stamp(now));
}

/// Returns the cause in the message of a node, and what helps.
fn parts(node: &DrainedNode) -> (&str, Option<&str>) {
    message_parts(node.message.as_deref().unwrap_or_default())
}

/// Returns the first of the nodes' messages, and the number of the others.
fn named(nodes: &[String]) -> Option<String> {
    let first = nodes.first()?;
    Some(match nodes.len().saturating_sub(1) {
        0 => first.clone(),
        1 => format!("{first}, and 1 more node"),
        more => format!("{first}, and {more} more nodes"),
    })
}
