//! The rule by which a pod is surplus. Pure.

/// Pods of a workload that neither terminate nor have ended, and the number that its top owner wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    /// Number that the top owner wants: the Deployment's, and not that of one of its ReplicaSets.
    pub(super) wanted: usize,
    /// Number of its pods.
    pub(super) pods: usize,
    /// Number of those that are ready.
    pub(super) ready: usize,
    /// Number of ready ones that stay once each of its controllers has as many pods as it should.
    pub(super) staying: usize,
    /// Number of healthy pods that the budget needs, which can be another number than is wanted.
    pub(super) needed: usize,
}

/// The pod that its controller deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// True when it is ready. A budget counts such a pod as healthy.
    pub(super) ready: bool,
    /// True when its controller has more pods than it should, and can choose this one.
    pub(super) excess: bool,
}

/// Returns true when the deletion of a pod by its controller is surplus: no budget has to protect the pod.
///
/// The eviction API has denied the eviction of the pod before. The first case counts:
///
/// 1. The top owner wants no pods, is being deleted, or is gone: surplus.
/// 2. The controller has no more pods than it should, so it replaces this one: not surplus.
/// 3. The pod is not ready: surplus if more pods exist than are wanted.
/// 4. The pod is ready: surplus if all of these are true. Without it the wanted number is ready. The wanted
///    number also stays ready once every controller has as many pods as it should. The budget needs all pods
///    that are ready now.
///
/// # Guarantees
///
/// A rollout counts. Its Deployment wants as many pods as before, so the deletion of a ready old pod is
/// surplus only once a ready new one makes up for it.
///
/// Surplus deletions at the same time do not add up to an outage. `staying` is computed from the numbers that
/// the controllers have been given, so it is the same for all of them: a Deployment that takes two pods from
/// an old ReplicaSet at once has made this number small before the first of them is deleted.
///
/// Surplus deletions and evictions by others at the same time do not add up to one, either. Where more pods
/// are ready than the budget needs, it has room, and its status is only late. The next try is counted then,
/// so that nobody else takes the same room.
pub(super) fn is_surplus(workload: Workload, candidate: Candidate) -> bool {
    let Workload { wanted, pods, ready, staying, needed } = workload;
    if wanted == 0 {
        return true;
    }
    if !candidate.excess {
        return false;
    }
    if candidate.ready { staying >= wanted && ready > wanted && ready <= needed } else { pods > wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One ReplicaSet: the number that it should have, its pods, and the ready ones.
    type Set = (usize, usize, usize);

    /// The case, the numbers that the budget needs and the owner wants, the sets, the pod's readiness, and
    /// the verdict.
    type Row<'a> = (&'a str, usize, usize, &'a [Set], bool, bool);

    /// Returns the verdict on a pod of the first ReplicaSet, under a budget that needs so many.
    fn verdict(needed: usize, wanted: usize, sets: &[Set], ready: bool) -> bool {
        let sum = |number: fn(&Set) -> usize| sets.iter().map(number).sum::<usize>();
        let workload = Workload {
            wanted,
            pods: sum(|set| set.1),
            ready: sum(|set| set.2),
            staying: sum(|set| set.2.min(set.0)),
            needed,
        };
        is_surplus(workload, Candidate { ready, excess: sets[0].1 > sets[0].0 })
    }

    #[test]
    fn a_scale_down_is_surplus_where_enough_ready_pods_stay() {
        let table: [Row<'_>; 14] = [
            ("scale to 0", 1, 0, &[(0, 2, 2)], true, true),
            ("scale to 0, the last pod", 1, 0, &[(0, 1, 1)], true, true),
            ("scale to 0, no pod is ready", 1, 0, &[(0, 2, 0)], false, true),
            ("scale to 0 in a rollout", 2, 0, &[(0, 1, 1), (2, 2, 0)], true, true),
            ("scale to 0 before its ReplicaSet has heard", 1, 0, &[(2, 2, 2)], true, true),
            ("scale from 4 to 2 under minAvailable 4", 4, 2, &[(2, 4, 4)], true, true),
            ("the second pod", 4, 2, &[(2, 3, 3)], true, true),
            ("no more pods than are wanted", 4, 2, &[(2, 2, 2)], true, false),
            ("a budget of 50 % that has room by now", 1, 2, &[(2, 4, 4)], true, false),
            ("two pods are not ready, one of them", 2, 2, &[(2, 4, 2)], false, true),
            ("two pods are not ready, a ready one", 2, 2, &[(2, 4, 2)], true, false),
            ("three pods are not ready, the ready one", 1, 2, &[(2, 4, 1)], true, false),
            ("a pod that is not ready, of as many as are wanted", 2, 2, &[(2, 2, 1)], false, false),
            ("from 3 to 2, and a drain has evicted one", 3, 2, &[(2, 2, 2)], true, false),
        ];
        for (case, needed, wanted, sets, ready, surplus) in table {
            assert_eq!(verdict(needed, wanted, sets, ready), surplus, "{case}");
        }
    }

    #[test]
    fn a_rollout_counts_unless_its_budget_needs_more_pods_than_its_owner_wants() {
        let table: [Row<'_>; 13] = [
            ("without surge, the first pod", 2, 2, &[(1, 2, 2), (0, 0, 0)], true, false),
            ("without surge, the new pod is not ready", 2, 2, &[(0, 1, 1), (2, 1, 0)], true, false),
            ("without surge, an old pod is not ready", 2, 2, &[(1, 2, 1), (0, 0, 0)], false, false),
            ("surge, the new pod is not ready", 3, 2, &[(1, 2, 2), (1, 1, 0)], true, false),
            ("surge, the new pod is ready", 2, 2, &[(1, 2, 2), (1, 1, 1)], true, false),
            ("surge, the new pod is ready, the budget needs 3", 3, 2, &[(1, 2, 2), (1, 1, 1)], true, true),
            ("surge, an old pod is not ready", 2, 2, &[(1, 2, 1), (1, 1, 1)], false, true),
            ("two old pods for one new one", 3, 2, &[(0, 2, 2), (1, 1, 1)], true, false),
            ("the same after the first of them", 3, 2, &[(0, 1, 1), (1, 1, 1)], true, false),
            ("the last old pod, the budget needs 3", 3, 2, &[(0, 1, 1), (2, 2, 2)], true, true),
            ("two old ReplicaSets give up pods", 4, 3, &[(0, 1, 1), (1, 2, 2), (1, 1, 1)], true, false),
            ("all pods are replaced at once", 3, 3, &[(0, 3, 3), (0, 0, 0)], true, false),
            ("together with a scale from 4 to 2", 5, 2, &[(1, 4, 4), (1, 1, 1)], true, true),
        ];
        for (case, needed, wanted, sets, ready, surplus) in table {
            assert_eq!(verdict(needed, wanted, sets, ready), surplus, "{case}");
        }
    }
}
