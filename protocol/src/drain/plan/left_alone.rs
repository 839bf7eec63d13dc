//! The record of the pods that a drain asked and that stay.
//!
//! An ended Evacuation is deleted after its time to live, or by a user. Without the record, the drain would
//! ask its pod again.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{DrainedNodePhase, MAX_LEFT_ALONE_PODS, NodeEvacuationStatus};

use super::{DrainWorld, pods::NodePods};

/// Adds the pods that were left alone, and drops those that are gone and those of nodes whose drain is over.
/// Beyond the bound a pod is known by its Evacuation alone.
pub(super) fn update(
    status: &mut NodeEvacuationStatus,
    world: &DrainWorld<'_>,
    nodes: &[NodePods<'_, '_>],
    now: DateTime<Utc>,
) {
    let there: BTreeSet<(&str, Option<&str>)> =
        world.pods.iter().map(|seen| (seen.node, seen.pod.metadata.uid.as_deref())).collect();
    let draining = status.nodes.iter().filter(|node| node.phase == DrainedNodePhase::Draining);
    let draining: BTreeSet<&str> = draining.map(|node| node.name.as_str()).collect();
    status.left_alone.retain(|known| {
        draining.contains(known.node.as_str()) && there.contains(&(known.node.as_str(), Some(&known.uid)))
    });
    for record in nodes.iter().flat_map(|node| node.left_alone(now)) {
        let known = status.left_alone.iter().any(|known| known.uid == record.uid);
        if !known && status.left_alone.len() < MAX_LEFT_ALONE_PODS {
            status.left_alone.push(record);
        }
    }
}
