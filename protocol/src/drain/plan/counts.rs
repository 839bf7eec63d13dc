//! Numbers of pods.
//!
//! A pod is gone when no pod of its UID is on the node any more. Numbers alone do not tell that: a pod that
//! goes and another that comes between two looks leave them as they were. So the record of a node names the
//! pods that count. Without a record, beyond its bound, the numbers decide.

use std::collections::BTreeSet;

use evacuation_api::{DrainPodCounts, DrainedNode, NodeEvacuationStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::drain::Picked;

/// Number of characters of a UID in a record.
const RECORDED: usize = 8;

/// The pods of a node, as [`record_of`] names them.
pub(super) struct Present<'p> {
    /// The pods that are left to move.
    pub(super) left: BTreeSet<&'p str>,
    /// All pods on the node.
    pub(super) there: &'p BTreeSet<&'p str>,
    /// The pods that terminate for too long to be waited for.
    pub(super) skipped: &'p BTreeSet<&'p str>,
}

/// Returns the first characters of a pod's UID.
pub(super) fn record_of(pod: &Pod) -> Option<&str> {
    let uid = pod.metadata.uid.as_deref()?;
    Some(uid.get(..RECORDED).unwrap_or(uid))
}

/// Returns true when the status of a drain records a pod of a node, or does not record the pods of the node
/// one by one. A pod that is asked before it is recorded may be gone before the next status, and never count.
pub fn is_recorded(status: &NodeEvacuationStatus, node: &str, pod: &Pod) -> bool {
    let Some(node) = status.nodes.iter().find(|known| known.name == node) else { return false };
    let left = node.pods.total.saturating_sub(node.pods.gone);
    let record = record_of(pod).unwrap_or_default();
    number(node.counted_pods.len()) != left || node.counted_pods.iter().any(|known| known == record)
}

/// Takes in the pods that are left to move on a node. Those that are no longer there are gone, and further
/// ones came. A pod that is there and no longer to move, such as by a change of its labels, is skipped. The
/// record of the node has at most `room` pods.
pub(super) fn set(
    node: &mut DrainedNode,
    left: DrainPodCounts,
    pods: &Present<'_>,
    changed: bool,
    room: usize,
) {
    let before = node.pods.total.saturating_sub(node.pods.gone);
    let is_recorded = number(node.counted_pods.len()) == before;
    let known = std::mem::take(&mut node.counted_pods);
    let known = known.iter().map(String::as_str).filter(|_| is_recorded);
    let (there, went): (Vec<&str>, Vec<_>) = known.partition(|uid| pods.there.contains(uid));
    let skipped: BTreeSet<&str> = there
        .into_iter()
        .chain(pods.skipped.iter().copied())
        .filter(|uid| !pods.left.contains(uid))
        .collect();
    let left = DrainPodCounts { skipped: number(skipped.len()), ..left };
    if is_recorded {
        let gone = node.pods.gone.saturating_add(number(went.len()));
        node.pods = DrainPodCounts { total: gone.saturating_add(remaining(left)), gone, ..left };
    } else {
        by_numbers(&mut node.pods, left, changed);
    }
    if pods.left.len().saturating_add(skipped.len()) <= room {
        node.counted_pods = pods.left.union(&skipped).map(|uid| (*uid).to_owned()).collect();
    }
}

/// Takes in the numbers of the pods that are left. After a change of the drain's spec, a pod that is no
/// longer among them may be there all the same, and does not count as gone.
fn by_numbers(counts: &mut DrainPodCounts, left: DrainPodCounts, changed: bool) {
    let (before, now) = (counts.total.saturating_sub(counts.gone), remaining(left));
    let went = if changed { 0 } else { before.saturating_sub(now).max(0) };
    let gone = counts.gone.saturating_add(went);
    *counts = DrainPodCounts { total: gone.saturating_add(now), gone, ..left };
}

/// Takes in the numbers of the pods before any of them was asked. A pod that is no longer among them is not
/// gone: the rules of the drain changed, or another actor removed it.
pub(super) fn set_unasked(node: &mut DrainedNode, left: DrainPodCounts) {
    node.pods = DrainPodCounts { total: remaining(left), gone: 0, ..left };
    node.counted_pods.clear();
}

/// Takes in that no pod is left to move.
pub(super) fn none_left(node: &mut DrainedNode, pods: &Present<'_>) {
    set(node, DrainPodCounts::default(), pods, false, 0);
}

/// Takes in the pods of a node whose drain has not begun: all that would have to go.
pub(super) fn set_pending(counts: &mut DrainPodCounts, picked: &Picked<'_>) {
    let refused = picked.refused.iter().map(|(pod, _)| *pod);
    let all = picked.evacuate.iter().chain(&picked.completed).copied().chain(refused);
    // A pod that is refused for two reasons is one pod.
    let uids: BTreeSet<Option<&str>> = all.map(|pod| pod.metadata.uid.as_deref()).collect();
    let waiting = number(uids.len());
    *counts = DrainPodCounts { total: waiting, waiting, ..DrainPodCounts::default() };
}

/// Takes in that the drain leaves the pods that are left alone: they are no longer to move.
pub(super) fn leave(node: &mut DrainedNode) {
    let gone = node.pods.gone;
    node.pods = DrainPodCounts { total: gone, gone, ..DrainPodCounts::default() };
    node.counted_pods.clear();
}

/// Returns the sum over the nodes.
pub(super) fn add_up(nodes: &[DrainedNode]) -> DrainPodCounts {
    nodes.iter().map(|node| node.pods).fold(DrainPodCounts::default(), |sum, pods| DrainPodCounts {
        total: sum.total.saturating_add(pods.total),
        waiting: sum.waiting.saturating_add(pods.waiting),
        asked: sum.asked.saturating_add(pods.asked),
        delayed: sum.delayed.saturating_add(pods.delayed),
        refused: sum.refused.saturating_add(pods.refused),
        evicting: sum.evicting.saturating_add(pods.evicting),
        blocked: sum.blocked.saturating_add(pods.blocked),
        gone: sum.gone.saturating_add(pods.gone),
        skipped: sum.skipped.saturating_add(pods.skipped),
    })
}

/// Returns the numbers of the pods of a drain, or of one node, that has come to its end.
pub(super) fn ended(pods: &DrainPodCounts) -> String {
    let gone = match pods.gone {
        1 => "1 pod is gone".to_owned(),
        gone => format!("{gone} pods are gone"),
    };
    match pods.skipped {
        0 => gone,
        1 => format!("{gone}, 1 was skipped and is there"),
        skipped => format!("{gone}, {skipped} were skipped and are there"),
    }
}

fn number(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

fn remaining(left: DrainPodCounts) -> i32 {
    [left.waiting, left.asked, left.delayed, left.refused, left.evicting, left.blocked, left.skipped]
        .into_iter()
        .fold(0, i32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes in a look at a node: the UIDs that are left to move, and those that are there beside them.
    fn look(node: &mut DrainedNode, left: &[&str], beside: &[&str], changed: bool, room: usize) {
        let (there, skipped) = (left.iter().chain(beside).copied().collect(), BTreeSet::new());
        let pods = Present { left: left.iter().copied().collect(), there: &there, skipped: &skipped };
        let waiting = DrainPodCounts { waiting: number(left.len()), ..DrainPodCounts::default() };
        set(node, waiting, &pods, changed, room);
    }

    fn numbers(node: &DrainedNode) -> (i32, i32, i32) {
        (node.pods.total, node.pods.gone, node.pods.waiting)
    }

    #[test]
    fn pods_whose_uids_are_no_longer_there_are_gone_and_others_came() {
        let mut node = DrainedNode::default();
        for (left, beside, expected) in [
            (vec!["a", "b", "c"], vec![], (3, 0, 3)),
            (vec!["a", "b"], vec![], (3, 1, 2)),
            // One went and another came between two looks.
            (vec!["a", "d"], vec![], (4, 2, 2)),
            // One is there and is not to move any more.
            (vec!["a"], vec!["d"], (4, 2, 1)),
            (vec!["a", "d"], vec![], (4, 2, 2)),
            (vec!["a"], vec!["d"], (4, 2, 1)),
            (vec![], vec!["d"], (4, 3, 0)),
            (vec![], vec![], (4, 4, 0)),
        ] {
            look(&mut node, &left, &beside, false, 9);
            assert_eq!(numbers(&node), expected, "{left:?} {beside:?}");
            let (total, gone, waiting) = expected;
            assert_eq!(node.pods.skipped, total - gone - waiting, "{left:?} {beside:?}");
        }
    }

    #[test]
    fn a_pod_that_terminates_for_too_long_is_skipped_with_and_without_a_record() {
        for room in [9, 0] {
            let mut node = DrainedNode::default();
            look(&mut node, &["a", "b"], &[], false, room);
            let (there, skipped) = (["b", "c"].into(), ["b", "c"].into());
            let pods = Present { left: BTreeSet::new(), there: &there, skipped: &skipped };
            none_left(&mut node, &pods);
            assert_eq!(node.pods.skipped, 2, "{room}");
            // Without a record nothing tells that it was the other one which went.
            let expected = if room > 0 { (3, 1, 0) } else { (2, 0, 0) };
            assert_eq!((numbers(&node), node.counted_pods.len()), (expected, 0), "{room}");
        }
    }

    #[test]
    fn the_end_tells_of_skipped_pods() {
        for (gone, skipped, expected) in [
            (0, 0, "0 pods are gone"),
            (1, 0, "1 pod is gone"),
            (2, 1, "2 pods are gone, 1 was skipped and is there"),
            (1, 3, "1 pod is gone, 3 were skipped and are there"),
        ] {
            assert_eq!(ended(&DrainPodCounts { gone, skipped, ..DrainPodCounts::default() }), expected);
        }
    }

    #[test]
    fn without_room_for_the_record_the_numbers_decide() {
        let mut node = DrainedNode::default();
        for (left, changed, expected) in [
            (vec!["a", "b", "c"], false, (3, 0, 3)),
            (vec!["a", "b"], false, (3, 1, 2)),
            (vec!["c", "d", "e", "f"], false, (5, 1, 4)),
            (vec!["c"], true, (2, 1, 1)),
            (vec![], false, (2, 2, 0)),
        ] {
            look(&mut node, &left, &[], changed, 0);
            assert_eq!((numbers(&node), node.counted_pods.len()), (expected, 0), "{left:?}");
        }
    }

    #[test]
    fn a_pod_is_recorded_once_its_node_names_it_or_names_none() {
        let status = |total: i32, counted: &[&str]| -> NodeEvacuationStatus {
            let pods = DrainPodCounts { total, gone: 1, ..DrainPodCounts::default() };
            let counted_pods = counted.iter().map(|uid| (*uid).to_owned()).collect();
            let node = DrainedNode { name: "n".to_owned(), pods, counted_pods, ..DrainedNode::default() };
            NodeEvacuationStatus { nodes: vec![node], ..NodeEvacuationStatus::default() }
        };
        let mut pod = Pod::default();
        pod.metadata.uid = Some("0123456789".to_owned());
        for (total, counted, node, expected) in [
            (2, vec!["01234567"], "n", true),
            (2, vec!["other"], "n", false),
            (1, vec![], "n", false),
            // Beyond the bound of the record.
            (2, vec![], "n", true),
            (2, vec!["01234567"], "another", false),
        ] {
            assert_eq!(
                is_recorded(&status(total, &counted), node, &pod),
                expected,
                "{total} {counted:?} {node}"
            );
        }
    }

    #[test]
    fn before_a_pod_was_asked_none_is_gone() {
        let mut node = DrainedNode::default();
        for left in [3, 2, 0, 4] {
            set_unasked(&mut node, DrainPodCounts { waiting: left, ..DrainPodCounts::default() });
            assert_eq!(numbers(&node), (left, 0, left));
        }
    }
}
