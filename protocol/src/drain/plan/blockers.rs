//! Blockers beside those of the pods that are being moved: of nodes that cannot be cordoned, and of nodes
//! whose drain failed.

use evacuation_api::{
    DrainBlocker, DrainBlockerReason, DrainedNodePhase, MAX_DRAIN_BLOCKERS, NodeEvacuationStatus,
};

use super::{DrainWorld, RejectedNode};
use crate::{
    drain::{message::message, verdict::rank},
    time::stamp,
};

/// Returns the blockers of the nodes that cannot be cordoned.
pub(super) fn of_nodes(status: &NodeEvacuationStatus, world: &DrainWorld<'_>) -> Vec<DrainBlocker> {
    let draining = |node: &&RejectedNode<'_>| {
        let known = status.nodes.iter().find(|known| known.name == node.node);
        known.is_some_and(|known| known.phase == DrainedNodePhase::Draining)
    };
    let blocker = |rejected: &RejectedNode<'_>| DrainBlocker {
        node: rejected.node.to_owned(),
        pod: None,
        owner: None,
        reason: DrainBlockerReason::NodeRejected.as_str().to_owned(),
        object: Some(format!("Node/{}", rejected.node)),
        stuck: true,
        since: stamp(rejected.since),
        message: message(
            &format!("the API server does not let the controller cordon the node: {}", rejected.message),
            Some(
                "give the controller the right to patch nodes, or change the policy or webhook that denies it",
            ),
        ),
    };
    world.rejected_nodes.iter().filter(draining).map(blocker).collect()
}

/// Returns the stored blockers of the nodes whose drain failed: their pods are no longer judged.
pub(super) fn of_failed(stored: &[DrainBlocker], status: &NodeEvacuationStatus) -> Vec<DrainBlocker> {
    let failed = |blocker: &&DrainBlocker| {
        let node = status.nodes.iter().find(|node| node.name == blocker.node);
        node.is_some_and(|node| node.phase == DrainedNodePhase::Failed)
    };
    stored.iter().filter(failed).cloned().collect()
}

/// Adds blockers, within the bound.
pub(super) fn add(status: &mut NodeEvacuationStatus, more: Vec<DrainBlocker>) {
    let known = |blocker: &DrainBlocker| {
        status
            .blockers
            .iter()
            .any(|b| (&b.node, &b.pod, &b.reason) == (&blocker.node, &blocker.pod, &blocker.reason))
    };
    let more: Vec<DrainBlocker> = more.into_iter().filter(|blocker| !known(blocker)).collect();
    status.blockers.extend(more);
    status.blockers.sort_by_key(|blocker| (rank(blocker), blocker.since));
    let over = status.blockers.len().saturating_sub(MAX_DRAIN_BLOCKERS);
    status.blockers.truncate(MAX_DRAIN_BLOCKERS);
    status.blockers_omitted = status.blockers_omitted.saturating_add(i32::try_from(over).unwrap_or(i32::MAX));
}
