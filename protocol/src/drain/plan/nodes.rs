//! The nodes of a drain: those that it takes in, and those that it begins.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{
    CordonOwner, DrainVerdict, DrainedNode, DrainedNodePhase, MAX_DRAINED_NODES, MAX_MESSAGE_LENGTH,
    NodeEvacuationSpec, NodeEvacuationStatus, NodeSelection,
};
use k8s_openapi::api::core::v1::Node;

use crate::{responders::selects, status::cut, time::stamp};

/// Takes in the nodes when the drain begins, and the later ones of a drain that follows its selector. Counts
/// the matching nodes for which there is no room.
pub(super) fn take_in(status: &mut NodeEvacuationStatus, wanted: &NodeSelection, nodes: &[&Node]) {
    let begins = status.nodes.is_empty();
    let names: Vec<String> = match &wanted.selector {
        None if begins => wanted.names.clone(),
        Some(selector) if begins || wanted.follow => {
            let none = BTreeMap::new();
            let labels = |node: &&&Node| selects(selector, node.metadata.labels.as_ref().unwrap_or(&none));
            let picked = nodes.iter().filter(labels).filter_map(|node| node.metadata.name.clone());
            picked.collect::<BTreeSet<_>>().into_iter().collect()
        }
        _ => return,
    };
    status.nodes_omitted = 0;
    for name in names {
        let node = nodes.iter().find(|node| node.metadata.name.as_ref() == Some(&name));
        let uid = node.and_then(|node| node.metadata.uid.clone());
        // A node that was deleted and came back under its name is another one.
        let full = status.nodes.len() >= MAX_DRAINED_NODES;
        let known = status.nodes.iter_mut().find(|known| known.name == name);
        match known {
            Some(known) if was_replaced(known, uid.as_ref()) => {
                *known = DrainedNode { name, uid, ..DrainedNode::default() };
            }
            Some(_) => {}
            None if full => status.nodes_omitted = status.nodes_omitted.saturating_add(1),
            None if uid.is_none() => status.nodes.push(missing(name)),
            None => status.nodes.push(DrainedNode { name, uid, ..DrainedNode::default() }),
        }
    }
}

/// Returns true when the drain is done with the node that it took in, and that is another one of its name.
fn was_replaced(known: &DrainedNode, uid: Option<&String>) -> bool {
    known.phase.is_final() && uid.is_some() && known.uid.as_ref() != uid
}

fn missing(name: String) -> DrainedNode {
    DrainedNode {
        message: Some("there is no node of this name".to_owned()),
        phase: DrainedNodePhase::Failed,
        verdict: DrainVerdict::Failed,
        name,
        ..DrainedNode::default()
    }
}

/// Adds to the message that nodes match and are not drained.
pub(super) fn tell_omitted(status: &mut NodeEvacuationStatus) {
    let omitted = status.nodes_omitted;
    if omitted > 0 {
        let noun = if omitted == 1 { "node matches" } else { "nodes match" };
        let told = format!(
            "; {omitted} more {noun} the selector and stay, because a drain has at most \
                            {MAX_DRAINED_NODES} nodes"
        );
        let message = status.message.take().unwrap_or_default();
        let message = cut(&message, MAX_MESSAGE_LENGTH.saturating_sub(told.len()));
        status.message = Some(message + &told);
    }
}

/// Records that a node is no longer there. Returns in words when it was found deleted, and whether another
/// one has its name.
pub(super) fn deleted(node: &mut DrainedNode, nodes: &[&Node], now: DateTime<Utc>) -> String {
    let time = node.deleted_time.get_or_insert_with(|| stamp(now)).0;
    let replaced = nodes.iter().any(|live| live.metadata.name.as_ref() == Some(&node.name));
    let again = if replaced { ", and another node took its name" } else { "" };
    format!("node {} was deleted at {}{again}", node.name, time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Ends the drain of a node that is no longer there, and whose pods are gone.
pub(super) fn gone(node: &mut DrainedNode, message: String) {
    node.phase = DrainedNodePhase::Gone;
    node.cordoned = CordonOwner::No;
    node.verdict = DrainVerdict::Drained;
    node.message = Some(message);
}

/// Begins as many nodes as the limits allow, in their order, and each node that is no longer there: its pods
/// are on their way out, or live on under the node that took its name, whatever the limits say.
pub(super) fn begin(
    status: &mut NodeEvacuationStatus,
    spec: &NodeEvacuationSpec,
    nodes: &[&Node],
    now: DateTime<Utc>,
) {
    let live = |name: &str| nodes.iter().copied().find(|node| node.metadata.name.as_deref() == Some(name));
    let limits = spec.max_parallel.clone().unwrap_or_default();
    let most = limits.nodes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or_default());
    let value = |name: &str| -> Option<String> {
        let key = &limits.per_topology_key.as_ref()?.key;
        let labels = live(name)?.metadata.labels.as_ref();
        Some(labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default())
    };
    let (mut in_progress, mut by_value) = (0_usize, BTreeMap::<String, i32>::new());
    for node in status.nodes.iter().filter(|node| node.phase == DrainedNodePhase::Draining) {
        in_progress = in_progress.saturating_add(1);
        if let Some(value) = value(&node.name) {
            let count = by_value.entry(value).or_default();
            *count = count.saturating_add(1);
        }
    }
    for node in status.nodes.iter_mut().filter(|node| node.phase == DrainedNodePhase::Pending) {
        let is_there = live(&node.name).is_some_and(|live| is(live, node));
        if !is_there {
            node.message = Some(deleted(node, nodes, now));
        } else if spec.paused || in_progress >= most {
            continue;
        }
        let value = value(&node.name).filter(|_| is_there);
        if let (Some(limit), Some(value)) = (&limits.per_topology_key, value) {
            let count = by_value.entry(value).or_default();
            if *count >= limit.nodes {
                continue;
            }
            *count = count.saturating_add(1);
        }
        in_progress = in_progress.saturating_add(1);
        node.phase = DrainedNodePhase::Draining;
        node.verdict = DrainVerdict::Draining;
        node.start_time = Some(stamp(now));
    }
}

/// Returns true when that is the node that the drain took in, and not a later one of its name.
pub(super) fn is(live: &Node, node: &DrainedNode) -> bool {
    live.metadata.name.as_ref() == Some(&node.name) && live.metadata.uid == node.uid
}
