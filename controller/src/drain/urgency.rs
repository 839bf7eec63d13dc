//! The changes of a drain's status that are written at once, and the acts that wait for the other changes.

use evacuation_api::{CordonOwner, DrainedNode, DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::{DrainAct, is_recorded};

/// Returns true when a change of a status is to be written at once. One of numbers and messages alone waits,
/// so that a drain of many pods does not write for each of them.
pub(super) fn is_urgent(stored: &NodeEvacuationStatus, next: &NodeEvacuationStatus) -> bool {
    outline(stored) != outline(next)
}

fn outline(status: &NodeEvacuationStatus) -> impl PartialEq {
    let node = |node: &DrainedNode| {
        let last = !node.daemon_set_pods.is_empty();
        (node.name.clone(), node.phase, node.cordoned, last)
    };
    let nodes: Vec<(String, DrainedNodePhase, CordonOwner, bool)> = status.nodes.iter().map(node).collect();
    let left_alone: Vec<String> = status.left_alone.iter().map(|pod| pod.uid.clone()).collect();
    let conditions: Vec<(String, String)> =
        status.conditions.iter().map(|c| (c.type_.clone(), c.status.clone())).collect();
    (nodes, left_alone, status.verdict, conditions, status.observed_generation)
}

/// Returns true when an act comes after the next write of the status: the question to a pod that has come
/// since the last one. It may be gone before the next write, and would never have counted.
pub(super) fn waits_for_record(drain: &NodeEvacuation, act: &DrainAct<'_>) -> bool {
    let DrainAct::Ask(pod, _) = act else { return false };
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    !drain.status.as_ref().is_some_and(|status| is_recorded(status, node, pod))
}
