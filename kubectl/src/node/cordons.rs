//! The cordons that a drain leaves at its end.

use evacuation_api::{CordonOwner, NodeEvacuation};
use evacuation_protocol::cordon_holders;
use k8s_openapi::api::core::v1::Node as CoreNode;
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::preview::shortened;

/// Returns the statement that cordons of the drain stay, with the command that takes them back. `None` when
/// none stays.
pub(super) async fn staying(client: &Client, drain: &NodeEvacuation) -> Option<String> {
    if recorded(drain).is_empty() {
        return None;
    }
    let cordoned = ListParams::default().fields("spec.unschedulable=true");
    let now = Api::<CoreNode>::all(client.clone()).list(&cordoned).await;
    statement(drain, now.as_ref().ok().map(|nodes| nodes.items.as_slice()))
}

/// Returns the statement about the cordons. `now` are the nodes that are cordoned now.
///
/// The record of a node is final before the end of the drain, and somebody can uncordon it meanwhile. If the
/// nodes cannot be listed, the record is the best that is known.
fn statement(drain: &NodeEvacuation, now: Option<&[CoreNode]>) -> Option<String> {
    let name = drain.name_any();
    let is_held = |node: &&str| {
        let live = |live: &&CoreNode| live.metadata.name.as_deref() == Some(*node);
        now.is_none_or(|now| now.iter().find(live).is_some_and(|live| is_held_by(live, &name)))
    };
    let held: Vec<&str> = recorded(drain).into_iter().filter(is_held).collect();
    let nodes = shortened(&held);
    match held.as_slice() {
        [] => None,
        [_] => Some(format!("the cordon of {nodes} stays; to take it back: kubectl evacuate cancel {name}")),
        _ => Some(format!("the cordons of {nodes} stay; to take them back: kubectl evacuate cancel {name}")),
    }
}

/// Returns the names of the nodes that the drain had cordoned at their end.
fn recorded(drain: &NodeEvacuation) -> Vec<&str> {
    let nodes = drain.status.iter().flat_map(|status| &status.nodes);
    nodes.filter(|node| node.cordoned == CordonOwner::Ours).map(|node| node.name.as_str()).collect()
}

/// Returns true when a node is cordoned for that drain, and for no other: a cancellation would uncordon it.
fn is_held_by(node: &CoreNode, drain: &str) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    is_cordoned && cordon_holders(node) == [drain]
}

#[cfg(test)]
mod tests {
    use evacuation_api::CORDONED_BY_ANNOTATION;
    use serde_json::json;

    use super::*;

    /// A drain of these nodes, with the owners of their cordons.
    fn drain(nodes: &[(&str, &str)]) -> NodeEvacuation {
        let nodes = nodes.iter().map(|(name, cordoned)| json!({"name": name, "cordoned": cordoned}));
        let status = json!({"nodes": nodes.collect::<Vec<_>>()});
        let spec = json!({"nodes": {"names": ["a"]}});
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec, "status": status})).unwrap()
    }

    fn node(name: &str, cordoned: bool, holders: Option<&str>) -> CoreNode {
        let annotations = holders.map(|names| json!({CORDONED_BY_ANNOTATION: names}));
        let metadata = json!({"name": name, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"unschedulable": cordoned}})).unwrap()
    }

    #[test]
    fn the_nodes_are_named_whose_cordons_stay_until_the_drain_is_canceled() {
        let (one, several) = (
            "the cordon of a stays; to take it back: kubectl evacuate cancel d",
            "the cordons of a, b stay; to take them back: kubectl evacuate cancel d",
        );
        let many = "the cordons of a, b, c and 2 more stay; to take them back: kubectl evacuate cancel d";
        for (nodes, expected) in [
            (&[][..], None),
            (&[("a", "No"), ("b", "Others")], None),
            (&[("a", "Ours")], Some(one)),
            (&[("a", "Ours"), ("b", "Others"), ("c", "No")], Some(one)),
            (&[("a", "Ours"), ("b", "Ours")], Some(several)),
            (&[("a", "Ours"), ("b", "Ours"), ("c", "Ours"), ("e", "Ours"), ("f", "Ours")], Some(many)),
        ] {
            assert_eq!(statement(&drain(nodes), None).as_deref(), expected, "{nodes:?}");
        }
    }

    #[test]
    fn a_cordon_stays_that_the_drain_alone_holds_now() {
        let b = Some("the cordon of b stays; to take it back: kubectl evacuate cancel d");
        let both = drain(&[("a", "Ours"), ("b", "Ours")]);
        for (cordoned, holders, is_named) in [
            (true, Some("d"), true),
            (true, Some("d,other"), false),
            (true, Some("other"), false),
            (true, None, false),
            (false, Some("d"), false),
            (false, None, false),
        ] {
            let now = [node("b", true, Some("d")), node("a", cordoned, holders), node("c", true, Some("d"))];
            let told = statement(&both, Some(&now));
            if is_named {
                assert!(told.is_some_and(|told| told.starts_with("the cordons of a, b stay")));
            } else {
                assert_eq!(told.as_deref(), b, "{cordoned} {holders:?}");
            }
        }
        assert_eq!(statement(&both, Some(&[])), None, "somebody has uncordoned them");
    }
}
