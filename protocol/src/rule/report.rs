//! The status of a rule.

use chrono::{DateTime, Utc};
use evacuation_api::{
    MAX_DRAINED_NODES, MarkedNode, MarkedNodePhase, NodeEvacuationRule, NodeEvacuationRuleStatus,
    RULE_HOLDS_BACK, condition_time,
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};

use crate::status::put;

/// Returns the next status. `left_over` is the number of nodes for which the list has no place.
pub(super) fn report(
    rule: &NodeEvacuationRule,
    nodes: Vec<MarkedNode>,
    left_over: usize,
    allowed: usize,
    now: DateTime<Utc>,
) -> NodeEvacuationRuleStatus {
    let held: Vec<&MarkedNode> = nodes.iter().filter(|node| node.phase == MarkedNodePhase::Held).collect();
    let count = held.len() + left_over;
    let first = held.first().and_then(|node| node.message.clone());
    let first = first.unwrap_or_else(|| format!("a rule drains at most {MAX_DRAINED_NODES} nodes"));
    let unread = nodes.iter().filter(|node| node.notice_problem.is_some()).count();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let mut next = NodeEvacuationRuleStatus {
        observed_generation: rule.metadata.generation,
        nodes_held: number(count),
        nodes_allowed: number(allowed),
        nodes_unread: number(unread),
        ..rule.status.clone().unwrap_or_default()
    };
    let known = next.conditions.iter().any(|condition| condition.type_ == RULE_HOLDS_BACK);
    if count > 0 || known {
        let held = if count == 1 { "1 node is".to_owned() } else { format!("{count} nodes are") };
        let (reason, message) = match count {
            0 => ("NothingHeld", String::new()),
            _ if rule.spec.paused => ("Paused", format!("{held} not drained: {first}")),
            _ => ("NodesHeld", format!("{held} not drained: {first}")),
        };
        put(&mut next.conditions, holds_back(count > 0, reason, message, now));
    }
    next.nodes = nodes;
    next
}

/// Returns the reason for which the limit holds a node back, in words.
pub(super) fn limit_text(rule: &NodeEvacuationRule, drained: usize, nodes: usize) -> String {
    let limit = match &rule.spec.max_nodes {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(share)) => share.clone(),
        None => "not given".to_owned(),
    };
    let (noun, verb) = (if nodes == 1 { "node" } else { "nodes" }, if drained == 1 { "is" } else { "are" });
    format!("{drained} of {nodes} {noun} {verb} under the NodeEvacuations of rules, and maxNodes is {limit}")
}

fn holds_back(value: bool, reason: &str, message: String, now: DateTime<Utc>) -> Condition {
    Condition {
        type_: RULE_HOLDS_BACK.to_owned(),
        status: if value { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: condition_time(now),
        observed_generation: None,
    }
}
