//! Numbers of pods.

use evacuation_api::{DrainPodCounts, DrainedNode};

/// Takes in the numbers of the pods that are left. Pods that are no longer left are gone, and further ones
/// came.
pub(super) fn set(counts: &mut DrainPodCounts, left: DrainPodCounts) {
    let (before, now) = (counts.total.saturating_sub(counts.gone), remaining(left));
    let came = now.saturating_sub(before).max(0);
    let went = before.saturating_sub(now).max(0);
    *counts = DrainPodCounts {
        total: counts.total.saturating_add(came),
        gone: counts.gone.saturating_add(went),
        ..left
    };
}

/// Takes in the numbers of the pods before any of them was asked. A pod that is no longer among them is not
/// gone: the rules of the drain changed, or another actor removed it.
pub(super) fn set_unasked(counts: &mut DrainPodCounts, left: DrainPodCounts) {
    *counts = DrainPodCounts { total: remaining(left), gone: 0, ..left };
}

/// Takes in that no pod is left.
pub(super) fn all_gone(counts: &mut DrainPodCounts) {
    set(counts, DrainPodCounts::default());
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
    })
}

fn remaining(left: DrainPodCounts) -> i32 {
    [left.waiting, left.asked, left.delayed, left.refused, left.evicting, left.blocked]
        .into_iter()
        .fold(0, i32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(waiting: i32) -> DrainPodCounts {
        DrainPodCounts { waiting, ..DrainPodCounts::default() }
    }

    #[test]
    fn pods_that_left_are_gone_and_pods_that_came_count_in_the_total() {
        let mut counts = DrainPodCounts::default();
        for (left, total, gone) in [(3, 3, 0), (2, 3, 1), (4, 5, 1), (0, 5, 5)] {
            set(&mut counts, waiting(left));
            assert_eq!((counts.total, counts.gone, counts.waiting), (total, gone, left));
        }
    }

    #[test]
    fn before_a_pod_was_asked_none_is_gone() {
        let mut counts = DrainPodCounts::default();
        for left in [3, 2, 0, 4] {
            set_unasked(&mut counts, waiting(left));
            assert_eq!((counts.total, counts.gone, counts.waiting), (left, 0, left));
        }
    }
}
