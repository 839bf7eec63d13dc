//! The marks of a node: the taint of a node that is to be drained later, and the conditions that tell others.
//!
//! The condition types are those of Kubernetes 1.37 (KEP-5683). They follow from all drains of the node
//! together, so that one drain never removes the mark of another. A taint or a condition that another wrote
//! is not changed, whatever it says.

use evacuation_api::{
    DRAIN_IN_PROGRESS, DRAINED, DUE_TAINT, DrainedNodePhase, MAINTENANCE_IN_PROGRESS, MAINTENANCE_PLANNED,
    NODE_MARKED, NODE_UNMARKED, NodeEvacuation,
};
use k8s_openapi::api::core::v1::{Node, Taint};

use super::lifecycle::{condition, is_own_condition};

/// Effect of the taint [`DUE_TAINT`] as the controller writes it, without a value.
const EFFECT: &str = "PreferNoSchedule";

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
    let tainted = taints.iter().any(is_own_taint);
    if due == tainted {
        return None;
    }
    taints.retain(|taint| !is_own_taint(taint));
    if due {
        taints.push(Taint { key: DUE_TAINT.to_owned(), effect: EFFECT.to_owned(), ..Taint::default() });
    }
    Some(taints)
}

fn is_own_taint(taint: &Taint) -> bool {
    taint.key == DUE_TAINT && taint.effect == EFFECT && taint.value.as_deref().is_none_or(str::is_empty)
}

/// Returns the conditions of the node that must change. A condition that was never True is not written, and
/// one that another wrote is left as it is.
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
        (MAINTENANCE_PLANNED, of(&[pending, draining])),
        (DRAIN_IN_PROGRESS, in_progress),
        (DRAINED, done.clone()),
        (MAINTENANCE_IN_PROGRESS, done),
    ];
    let change = |(kind, names): (&'static str, Vec<&str>)| {
        let value = !names.is_empty();
        let reason = if value { NODE_MARKED } else { NODE_UNMARKED };
        let mark = NodeMark { condition: kind, value, reason, message: names.join(", ") };
        let known = condition(node, kind);
        if known.is_some_and(|known| !is_own_condition(known)) {
            return None;
        }
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
    fn a_taint_that_another_wrote_under_the_key_stays() {
        for other in [
            json!({"key": DUE_TAINT, "effect": "NoSchedule"}),
            json!({"key": DUE_TAINT, "effect": "PreferNoSchedule", "value": "mine"}),
        ] {
            let node = node(&json!([other]), &json!([]));
            assert_eq!(due_taints(&node, &[]), None, "{other}");
            let due = due_taints(&node, &[drain("b", "Pending")]).unwrap();
            assert_eq!((due.len(), serde_json::to_value(&due[0]).unwrap()), (2, other));
        }
    }

    /// The conditions of a node, each with status, reason and message.
    fn conditions(all: &[(&str, &str, &str, &str)]) -> Value {
        let one = |(kind, status, reason, message): &(&str, &str, &str, &str)| json!({"type": kind, "status": status, "reason": reason, "message": message});
        all.iter().map(one).collect()
    }

    #[test]
    fn the_conditions_name_the_drains_and_go_with_the_last_one() {
        let bare = node(&json!([]), &json!([]));
        assert_eq!(marks(&bare, &[]), [] as [&str; 0], "a node that nobody drains is left alone");
        assert_eq!(marks(&bare, &[drain("a", "Pending")]), ["MaintenancePlanned=true a"]);
        assert_eq!(
            marks(&bare, &[drain("a", "Draining"), drain("b", "Drained")]),
            ["MaintenancePlanned=true a", "DrainInProgress=true a"]
        );
        let ours = [
            ("MaintenancePlanned", "True", "NodeEvacuation", "a"),
            ("DrainInProgress", "True", "NodeEvacuation", "a"),
        ];
        let marked = node(&json!([]), &conditions(&ours));
        let unplanned = ["MaintenancePlanned=false ", "DrainInProgress=false "];
        assert_eq!(
            marks(&marked, &[drain("a", "Drained")]),
            [unplanned[0], unplanned[1], "Drained=true a", "MaintenanceInProgress=true a"]
        );
        let mut uncordoned = marked.clone();
        uncordoned.spec.as_mut().unwrap().unschedulable = None;
        assert_eq!(marks(&uncordoned, &[drain("a", "Drained")]), unplanned);
        assert_eq!(marks(&marked, &[]), unplanned);
        let mut another = drain("a", "Draining");
        another.status.as_mut().unwrap().nodes[0].uid = Some("2".to_owned());
        assert_eq!(marks(&bare, &[another]), [] as [&str; 0], "a later node of that name is not drained");
    }

    #[test]
    fn the_conditions_of_an_administrator_stay_whatever_they_say() {
        let kinds = ["MaintenancePlanned", "MaintenanceInProgress", "DrainInProgress", "Drained"];
        for status in ["True", "False", "Unknown"] {
            let theirs: Vec<_> = kinds.iter().map(|kind| (*kind, status, "AdminRequested", "mine")).collect();
            let node = node(&json!([]), &conditions(&theirs));
            for drains in [vec![], vec![drain("a", "Pending")], vec![drain("a", "Draining")]] {
                assert_eq!(marks(&node, &drains), [] as [&str; 0], "{status} {drains:?}");
            }
            assert_eq!(marks(&node, &[drain("a", "Drained")]), [] as [&str; 0], "{status}");
        }
        let one = node(&json!([]), &conditions(&[("DrainInProgress", "True", "KubectlDrainStarted", "")]));
        assert_eq!(marks(&one, &[drain("a", "Pending")]), ["MaintenancePlanned=true a"]);
    }
}
