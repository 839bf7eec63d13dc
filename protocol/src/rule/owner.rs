//! The NodeEvacuations that a rule owns.

use evacuation_api::{
    DeadlineAction, DrainedNodePhase, GROUP, MAX_DRAIN_NAME_LENGTH, NodeEvacuation, NodeEvacuationRule,
    NodeEvacuationSpec, api_version,
};
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

/// Returns the reference to the rule that opened the drain.
pub fn owner_rule(drain: &NodeEvacuation) -> Option<&OwnerReference> {
    let owners = drain.metadata.owner_references.iter().flatten();
    let is_rule = |owner: &&OwnerReference| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.controller == Some(true) && owner.kind == NodeEvacuationRule::KIND && group == Some(GROUP)
    };
    owners.into_iter().find(is_rule)
}

/// Returns true if the rule opened the drain.
pub(super) fn owns(rule: &NodeEvacuationRule, drain: &NodeEvacuation) -> bool {
    owner_rule(drain).is_some_and(|owner| Some(&owner.uid) == rule.metadata.uid.as_ref())
}

/// Returns true while the drain was not deleted.
pub(super) fn is_open(drain: &NodeEvacuation) -> bool {
    drain.metadata.deletion_timestamp.is_none()
}

/// Returns true when the drain is that of an earlier node of the same name.
pub(super) fn is_of_an_earlier_node(drain: &NodeEvacuation, node: &Node) -> bool {
    let known = drain.status.as_ref().and_then(|status| status.nodes.first());
    known.is_some_and(|known| {
        let other = known.uid.is_some() && known.uid != node.metadata.uid;
        other || known.phase == DrainedNodePhase::Gone
    })
}

/// Returns the name of the node that a rule's drain is for.
pub(super) fn drained_node(drain: &NodeEvacuation) -> Option<&str> {
    drain.spec.nodes.names.first().map(String::as_str)
}

/// Returns the name of the drain of a node: that of the rule, a dot, and that of the node or, when it is too
/// long, the node's UID. A rule's name has no dot, so that no two rules want the same name.
pub(super) fn drain_name(rule: &NodeEvacuationRule, node: &Node) -> String {
    let rule = rule.metadata.name.as_deref().unwrap_or_default();
    let named = format!("{rule}.{}", node.metadata.name.as_deref().unwrap_or_default());
    if named.len() <= MAX_DRAIN_NAME_LENGTH {
        return named;
    }
    format!("{rule}.{}", node.metadata.uid.as_deref().unwrap_or_default())
}

/// Returns the action of a rule's drains at their deadline.
pub fn at_deadline(rule: &NodeEvacuationRule) -> DeadlineAction {
    rule.spec.template.requester.at_deadline.unwrap_or_default()
}

/// Returns the drain of a node, to be created. Without a deadline it has no action at one.
pub(super) fn drain_of(
    rule: &NodeEvacuationRule,
    node: &Node,
    mark: &str,
    deadline_seconds: Option<i64>,
) -> NodeEvacuation {
    let name = rule.metadata.name.clone().unwrap_or_default();
    let mut spec: NodeEvacuationSpec =
        rule.spec.template.spec_for(node.metadata.name.as_deref().unwrap_or_default());
    spec.requester.message.get_or_insert_with(|| format!("{mark}, nodeevacuationrule {name}"));
    if deadline_seconds.is_some() {
        spec.requester.deadline_seconds = deadline_seconds;
    }
    spec.requester.at_deadline = spec.requester.deadline_seconds.map(|_| at_deadline(rule));
    let owner = OwnerReference {
        api_version: api_version(),
        kind: NodeEvacuationRule::KIND.to_owned(),
        name,
        uid: rule.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let mut drain = NodeEvacuation::new(&drain_name(rule, node), spec);
    drain.metadata = ObjectMeta { owner_references: Some(vec![owner]), ..drain.metadata };
    drain
}
