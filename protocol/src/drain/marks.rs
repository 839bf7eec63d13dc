//! The marks of a node: the taint of a node that is to be drained later, and the conditions that tell others.
//!
//! The condition types are those of Kubernetes 1.37 (KEP-5683). They follow from all drains of the node
//! together, so that one drain never removes the mark of another.

use evacuation_api::{
    DRAIN_IN_PROGRESS, DRAINED, DUE_TAINT, DrainedNodePhase, MAINTENANCE_PLANNED, NodeEvacuation,
};
use k8s_openapi::api::core::v1::{Node, Taint};

/// Reason of the conditions that are True.
const NAMED: &str = "NodeEvacuation";
/// Reason of the conditions that are False.
const NONE: &str = "NoNodeEvacuation";

/// A condition of a node that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMark {
    /// The condition's type.
    pub condition: &'static str,
    /// True when the condition is to be True.
    pub value: bool,
    /// The condition's reason.
    pub reason: &'static str,
    /// The drains that cause it.
    pub message: String,
}

/// Returns the node's taints when they must change: the taint [`DUE_TAINT`] is there exactly while a drain
/// that is not deleted has the node before it, or drains it uncordoned.
pub fn due_taints<'d>(
    node: &Node,
    drains: impl IntoIterator<Item = &'d NodeEvacuation>,
) -> Option<Vec<Taint>> {
    let cordoned = is_cordoned(node);
    // A node that is drained before it is cordoned would take the replacements of its own pods.
    let is_due = |phase| match phase {
        DrainedNodePhase::Pending => true,
        DrainedNodePhase::Draining => !cordoned,
        _ => false,
    };
    let due = drains.into_iter().any(|drain| phase_in(drain, node).is_some_and(is_due));
    let mut taints: Vec<Taint> = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let tainted = taints.iter().any(|taint| taint.key == DUE_TAINT);
    if due == tainted {
        return None;
    }
    taints.retain(|taint| taint.key != DUE_TAINT);
    if due {
        taints.push(Taint {
            key: DUE_TAINT.to_owned(),
            effect: "PreferNoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    Some(taints)
}

/// Returns the conditions of the node that must change. A condition that was never True is not written.
pub fn condition_changes<'d>(
    node: &Node,
    drains: impl IntoIterator<Item = &'d NodeEvacuation>,
) -> Vec<NodeMark> {
    let named: Vec<(&str, DrainedNodePhase)> = drains
        .into_iter()
        .filter_map(|drain| Some((drain.metadata.name.as_deref()?, phase_in(drain, node)?)))
        .collect();
    let of = |phases: &[DrainedNodePhase]| -> Vec<&str> {
        named.iter().filter(|(_, phase)| phases.contains(phase)).map(|(name, _)| *name).collect()
    };
    let (pending, draining, drained) =
        (DrainedNodePhase::Pending, DrainedNodePhase::Draining, DrainedNodePhase::Drained);
    let in_progress = of(&[draining]);
    // A node that takes pods again is no longer drained.
    let cordoned = is_cordoned(node);
    let done = if in_progress.is_empty() && cordoned { of(&[drained]) } else { Vec::new() };
    let wanted = [
        (MAINTENANCE_PLANNED, of(&[pending, draining, drained])),
        (DRAIN_IN_PROGRESS, in_progress),
        (DRAINED, done),
    ];
    let change = |(condition, names): (&'static str, Vec<&str>)| {
        let value = !names.is_empty();
        let reason = if value { NAMED } else { NONE };
        let mark = NodeMark { condition, value, reason, message: names.join(", ") };
        let known = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let known = known.into_iter().find(|known| known.type_ == condition);
        let is_set = known.is_some_and(|known| known.status == "True");
        let says = known.and_then(|known| known.message.as_deref()).unwrap_or_default();
        (is_set != value || (value && says != mark.message)).then_some(mark)
    };
    wanted.into_iter().filter_map(change).collect()
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the phase of that very node in a drain that is not deleted.
fn phase_in(drain: &NodeEvacuation, node: &Node) -> Option<DrainedNodePhase> {
    if drain.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let nodes = &drain.status.as_ref()?.nodes;
    let same = |known: &&evacuation_api::DrainedNode| {
        node.metadata.name.as_ref() == Some(&known.name) && node.metadata.uid == known.uid
    };
    nodes.iter().find(same).map(|known| known.phase)
}

#[cfg(test)]
mod tests {
    use evacuation_api::NodeEvacuation;
    use serde_json::{Value, json};

    use super::*;

    fn drain(name: &str, phase: &str) -> NodeEvacuation {
        let nodes = json!([{"name": "n", "uid": "1", "phase": phase, "cordoned": "No", "pods": {}, "verdict": "Waiting"}]);
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"nodes": {"names": ["n"]}}, "status": {"nodes": nodes, "pods": {}},
        }))
        .unwrap()
    }

    fn node(taints: &Value, conditions: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "uid": "1"}, "spec": {"taints": taints, "unschedulable": true},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn marks(node: &Node, drains: &[NodeEvacuation]) -> Vec<String> {
        let changes = condition_changes(node, drains).into_iter();
        changes.map(|mark| format!("{}={} {}", mark.condition, mark.value, mark.message)).collect()
    }

    #[test]
    fn a_node_is_due_while_any_drain_has_it_before_it() {
        let other = json!({"key": "other", "effect": "NoSchedule"});
        let bare = node(&json!([other]), &json!([]));
        let keys = |taints: Option<Vec<Taint>>| {
            taints.map(|all| all.into_iter().map(|taint| taint.key).collect::<Vec<_>>())
        };
        let due = due_taints(&bare, &[drain("a", "Draining"), drain("b", "Pending")]);
        assert_eq!(keys(due), Some(vec!["other".to_owned(), DUE_TAINT.to_owned()]));
        assert_eq!(due_taints(&bare, &[drain("a", "Draining")]), None);

        let tainted = node(&json!([other, {"key": DUE_TAINT, "effect": "PreferNoSchedule"}]), &json!([]));
        assert_eq!(due_taints(&tainted, &[drain("b", "Pending")]), None);
        assert_eq!(keys(due_taints(&tainted, &[drain("b", "Draining")])), Some(vec!["other".to_owned()]));
        assert_eq!(keys(due_taints(&tainted, &[])), Some(vec!["other".to_owned()]));
        let mut deleted = drain("b", "Pending");
        deleted.metadata.deletion_timestamp = Some(evacuation_api::condition_time(crate::testing::at(0)));
        assert_eq!(keys(due_taints(&tainted, &[deleted])), Some(vec!["other".to_owned()]));
    }

    #[test]
    fn the_conditions_name_the_drains_and_go_with_the_last_one() {
        let bare = node(&json!([]), &json!([]));
        assert_eq!(marks(&bare, &[]), [] as [&str; 0], "a node that nobody drains is left alone");
        assert_eq!(marks(&bare, &[drain("a", "Pending")]), ["MaintenancePlanned=true a"]);
        assert_eq!(
            marks(&bare, &[drain("a", "Draining"), drain("b", "Drained")]),
            ["MaintenancePlanned=true a, b", "DrainInProgress=true a"]
        );
        let marked = node(
            &json!([]),
            &json!([
                {"type": "MaintenancePlanned", "status": "True", "message": "a"},
                {"type": "DrainInProgress", "status": "True", "message": "a"},
            ]),
        );
        assert_eq!(marks(&marked, &[drain("a", "Drained")]), ["DrainInProgress=false ", "Drained=true a"]);
        let mut uncordoned = marked.clone();
        uncordoned.spec.as_mut().unwrap().unschedulable = None;
        assert_eq!(marks(&uncordoned, &[drain("a", "Drained")]), ["DrainInProgress=false "]);
        assert_eq!(marks(&marked, &[]), ["MaintenancePlanned=false ", "DrainInProgress=false "]);
        let mut another = drain("a", "Draining");
        another.status.as_mut().unwrap().nodes[0].uid = Some("2".to_owned());
        assert_eq!(marks(&bare, &[another]), [] as [&str; 0], "a later node of that name is not drained");
    }
}
