//! The plan of all rules.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{NodeEvacuation, NodeEvacuationRule, NodeEvacuationRuleStatus};
use k8s_openapi::api::core::v1::Node;

use super::{
    owner::{drained_node, is_open, owner_rule, owns},
    planner::Planner,
};

/// The objects that the rules depend on.
#[derive(Clone, Debug, Default)]
pub struct RuleWorld<'a> {
    /// Every NodeEvacuationRule, ordered by name.
    pub rules: Vec<&'a NodeEvacuationRule>,
    /// Every node.
    pub nodes: Vec<&'a Node>,
    /// Every NodeEvacuation.
    pub drains: Vec<&'a NodeEvacuation>,
    /// The NodeEvacuations that the API server did not let the controller create, by their names.
    pub rejected: BTreeMap<String, RejectedDrain>,
    /// The names of the NodeEvacuations that the controller created after it last wrote the status of their
    /// rules. When one is gone, a user deleted it.
    pub opened: BTreeSet<String>,
}

/// A NodeEvacuation that the API server did not let the controller create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedDrain {
    /// Reply of the API server.
    pub message: String,
    /// Time at which its creation is tried again.
    pub retry: DateTime<Utc>,
}

/// The next status and the acts of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RulePlan<'a> {
    /// The rule.
    pub rule: &'a NodeEvacuationRule,
    /// The rule's next status.
    pub status: NodeEvacuationRuleStatus,
    /// The acts, to be done after the status is written.
    pub acts: Vec<RuleAct<'a>>,
    /// Notices whose time cannot be read, in words, of which the stored status does not tell.
    pub unread: Vec<String>,
    /// Time of the next plan, when nothing else asks for one.
    pub wake_at: Option<DateTime<Utc>>,
}

/// One act of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleAct<'a> {
    /// Create the NodeEvacuation.
    Open(Box<NodeEvacuation>),
    /// Change the NodeEvacuation's `deadlineSeconds`.
    SetDeadline(&'a NodeEvacuation, i64),
    /// Delete the NodeEvacuation.
    Close(&'a NodeEvacuation),
    /// Remove the finalizer of the deleted rule, which owns no NodeEvacuation any more.
    ReleaseFinalizer,
}

/// Plans what follows from the marks of the nodes. The plans are in the order of the rules.
pub fn plan_rules<'a>(world: &RuleWorld<'a>, now: DateTime<Utc>) -> Vec<RulePlan<'a>> {
    let existing: BTreeSet<&str> =
        world.nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    // A drained node counts until its mark disappears: it is out of service.
    let by_rules = world.drains.iter().filter(|drain| owner_rule(drain).is_some());
    let by_rules = by_rules.filter_map(|drain| drained_node(drain));
    let mut drained: BTreeSet<&'a str> = by_rules.filter(|node| existing.contains(node)).collect();
    let is_deleted = |rule: &NodeEvacuationRule| rule.metadata.deletion_timestamp.is_some();
    let mut plans: Vec<RulePlan<'a>> = Vec::new();
    for rule in &world.rules {
        plans.push(if is_deleted(rule) {
            close_all(world, rule)
        } else {
            Planner::new(world, rule, now).plan(&mut drained)
        });
    }
    let count = i32::try_from(drained.len()).unwrap_or(i32::MAX);
    for plan in plans.iter_mut().filter(|plan| !is_deleted(plan.rule)) {
        plan.status.nodes_drained = count;
    }
    plans
}

/// Closes every drain of a deleted rule, and releases the rule when they are gone.
fn close_all<'a>(world: &RuleWorld<'a>, rule: &'a NodeEvacuationRule) -> RulePlan<'a> {
    let own: Vec<&NodeEvacuation> = world.drains.iter().filter(|drain| owns(rule, drain)).copied().collect();
    let acts = if own.is_empty() {
        vec![RuleAct::ReleaseFinalizer]
    } else {
        own.into_iter().filter(|drain| is_open(drain)).map(RuleAct::Close).collect()
    };
    RulePlan {
        rule,
        status: rule.status.clone().unwrap_or_default(),
        acts,
        unread: Vec::new(),
        wake_at: None,
    }
}
