//! The pods of one node: which are asked now, and what becomes of the others.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonPolicy, DaemonSetRule, DrainPhase, DrainedNode, DrainedNodePhase, Evacuation, LateRule,
    LeftAlonePod, MAX_DAEMON_SET_PODS, NodeEvacuation, NodeEvacuationSpec, Requester, from_condition_time,
};
use k8s_openapi::api::core::v1::Pod;

use super::{
    DrainAct, PodOnNode,
    standing::{is_accepted, is_active, own, standing},
};
use crate::{
    Phase,
    drain::{
        DrainFilters, DrainWarning, pick,
        verdict::{AttachFailure, DrainedPod, PodJudgement, Standing, judge, record},
    },
    phase,
    responders::selects,
};

/// The pods of one node that its drain concerns.
pub(super) struct NodePods<'w, 'a> {
    pub(super) node: String,
    pods: Vec<Member<'w, 'a>>,
    /// The active Evacuations of its pods that hold the drain's entry, also of pods that the rules no longer
    /// pick.
    requests: Vec<&'a Evacuation>,
    /// True when the drain's rules refuse a pod: then no further pod of the node is asked.
    refused: bool,
    /// True once the pods are recorded that are asked in the phase [`LAST`].
    last_begun: bool,
}

/// A pod that must go before its node is drained.
struct Member<'w, 'a> {
    seen: &'w PodOnNode<'a>,
    standing: Standing<'a>,
    phase: usize,
    completed: bool,
    /// The losses that its evacuation causes.
    losses: Vec<DrainWarning>,
}

/// The phase of the pods of DaemonSets, after all others.
const LAST: usize = usize::MAX;

impl<'w, 'a> NodePods<'w, 'a> {
    /// Sorts the pods that are on a node. DaemonSets that do not exist are named in `missing`.
    pub(super) fn of(
        node: &DrainedNode,
        drain: &NodeEvacuation,
        entry: &Requester,
        there: &[&'w PodOnNode<'a>],
        missing: &BTreeSet<String>,
        now: DateTime<Utc>,
    ) -> Self {
        let rules = &drain.spec.pods;
        let begun = node.start_time.map_or(now, |time| time.0);
        let filters = DrainFilters::of(&drain.spec, missing);
        let without = BTreeMap::new();
        let last = |pod: &Pod| {
            filters.daemon_sets == DaemonSetRule::Last && filters.living_daemon_set(pod).is_some()
        };
        let last_begun = !node.daemon_set_pods.is_empty();
        let replaced = |pod: &Pod| {
            let uid = pod.metadata.uid.as_ref();
            last_begun && last(pod) && !node.daemon_set_pods.iter().any(|known| Some(known) == uid)
        };
        let skips_late = rules.late.unwrap_or_default() == LateRule::Skip;
        let concerned = |seen: &&&'w PodOnNode<'a>| {
            let labels = seen.pod.metadata.labels.as_ref().unwrap_or(&without);
            let late = skips_late && created(seen.pod) > begun;
            !late
                && !replaced(seen.pod)
                && rules.selector.as_ref().is_none_or(|selector| selects(selector, labels))
        };
        let requests = there.iter().flat_map(|seen| seen.evacuations.iter().copied());
        let requests = requests.filter(|e| is_active(e) && own(e, entry).is_some()).collect();
        let seen: Vec<&'w PodOnNode<'a>> = there.iter().filter(concerned).copied().collect();
        let picked = pick(seen.iter().map(|seen| seen.pod), &filters, now);
        let by_uid: BTreeMap<Option<&str>, &'w PodOnNode<'a>> =
            seen.iter().map(|seen| (seen.pod.metadata.uid.as_deref(), *seen)).collect();
        let find = |pod: &Pod| by_uid.get(&pod.metadata.uid.as_deref()).copied();
        let phase_of = |pod: &Pod| phase_of(pod, &drain.spec.phases);
        let mut pods = Vec::new();
        for (pod, why) in &picked.refused {
            let known = pods.iter_mut().find_map(|member: &mut Member<'_, '_>| {
                let same = member.seen.pod.metadata.uid == pod.metadata.uid;
                if let (true, Standing::Refused(reasons)) = (same, &mut member.standing) {
                    Some(reasons)
                } else {
                    None
                }
            });
            match (known, find(pod)) {
                (Some(reasons), _) => reasons.push(*why),
                (None, Some(seen)) => pods.push(Member {
                    standing: Standing::Refused(vec![*why]),
                    phase: phase_of(pod),
                    completed: false,
                    losses: Vec::new(),
                    seen,
                }),
                (None, None) => {}
            }
        }
        let refused = !pods.is_empty();
        let left_alone = drain.status.as_ref().map(|status| status.left_alone.as_slice()).unwrap_or_default();
        for seen in picked.evacuate.iter().filter_map(|pod| find(pod)) {
            let standing = standing(seen, entry, left_alone);
            let phase = if last(seen.pod) { LAST } else { phase_of(seen.pod) };
            let of_pod = picked.warnings.iter().filter(|(pod, _)| pod.metadata.uid == seen.pod.metadata.uid);
            let losses = of_pod.map(|(_, loss)| *loss).collect();
            pods.push(Member { phase, completed: false, standing, losses, seen });
        }
        for seen in picked.completed.iter().filter_map(|pod| find(pod)) {
            let phase = phase_of(seen.pod);
            let (standing, losses) = (Standing::Leaving, Vec::new());
            pods.push(Member { phase, completed: true, standing, losses, seen });
        }
        Self { node: node.name.clone(), pods, requests, refused, last_begun }
    }

    /// Returns false when a pod that the rules refuse keeps the drain from beginning. A node on which pods
    /// were asked goes on.
    pub(super) fn may_begin(&self) -> bool {
        !self.refused || self.asked().next().is_some()
    }

    /// Returns true when it is time to cordon the node.
    pub(super) fn is_due(&self, policy: CordonPolicy) -> bool {
        match policy {
            CordonPolicy::Never => false,
            CordonPolicy::BeforeAsking => true,
            CordonPolicy::AfterAnswers => {
                let answered = |e: &Evacuation| matches!(phase(e), Phase::Evicting | Phase::Evacuated);
                let waits = |m: &Member<'_, '_>| m.phase != LAST && matches!(m.standing, Standing::Waiting);
                !self.pods.iter().any(waits) && self.asked().all(answered)
            }
        }
    }

    fn asked(&self) -> impl Iterator<Item = &'a Evacuation> {
        self.pods.iter().filter_map(|member| match member.standing {
            Standing::Asked(evacuation) => Some(evacuation),
            _ => None,
        })
    }

    /// Number of pods that were asked or leave.
    fn in_progress(&self) -> usize {
        let busy = |m: &&Member<'_, '_>| matches!(m.standing, Standing::Asked(_) | Standing::Leaving);
        self.pods.iter().filter(busy).count()
    }

    /// Returns the acts that move the pods, at most `room` new requests. Paused drains ask no further pod.
    /// Adds what is lost by them to `losses`.
    pub(super) fn acts(
        &self,
        entry: &Requester,
        paused: bool,
        room: &mut usize,
        losses: &mut BTreeSet<DrainWarning>,
    ) -> Vec<DrainAct<'a>> {
        let mut acts = self.dropped();
        let first = self.first_phase().filter(|phase| *phase != LAST || self.last_begun);
        // A pod that the API server rejects takes no place from one that was not asked yet.
        let of_phase = self.pods.iter().filter(|member| Some(member.phase) == first);
        let (rejected, others): (Vec<_>, Vec<_>) =
            of_phase.partition(|member| matches!(member.standing, Standing::Rejected { .. }));
        for member in others.into_iter().chain(rejected) {
            let pod = member.seen.pod;
            match &member.standing {
                Standing::Waiting | Standing::Rejected { .. } if !paused && !self.refused && *room > 0 => {
                    *room = room.saturating_sub(1);
                    losses.extend(&member.losses);
                    let active = member.seen.evacuations.iter().find(|e| is_active(e)).copied();
                    let entry = Box::new(entry.clone());
                    acts.push(active.map_or_else(
                        || DrainAct::Ask(pod, entry.clone()),
                        |active| DrainAct::Join(active, entry.clone()),
                    ));
                }
                Standing::Asked(evacuation) if own(evacuation, entry) != Some(entry) => {
                    acts.push(DrainAct::Join(evacuation, Box::new(entry.clone())));
                }
                Standing::Leaving
                    if member.completed
                        && !paused
                        && !self.refused
                        && pod.metadata.deletion_timestamp.is_none() =>
                {
                    acts.push(DrainAct::Remove(pod));
                }
                _ => {}
            }
        }
        acts
    }

    fn first_phase(&self) -> Option<usize> {
        self.pods.iter().map(|member| member.phase).min()
    }

    /// Returns the UIDs of the DaemonSet pods to ask, when all others are gone and these are not recorded
    /// yet. At most [`MAX_DAEMON_SET_PODS`].
    pub(super) fn last_phase(&self) -> Option<Vec<String>> {
        let due = !self.last_begun && !self.refused && self.first_phase() == Some(LAST);
        let uids = self.pods.iter().filter_map(|member| member.seen.pod.metadata.uid.clone());
        due.then(|| uids.take(MAX_DAEMON_SET_PODS).collect())
    }

    /// Returns the records of the pods that were left alone and whose Evacuations are known.
    pub(super) fn left_alone(&self, now: DateTime<Utc>) -> Vec<LeftAlonePod> {
        let record = |member: &Member<'w, 'a>| match member.standing {
            Standing::LeftAlone(evacuation) => Some(record(&self.node, member.seen.pod, evacuation, now)),
            _ => None,
        };
        self.pods.iter().filter_map(record).collect()
    }

    /// Returns the withdrawals of every request on the node that can still be taken back.
    pub(super) fn withdrawals(&self) -> Vec<DrainAct<'a>> {
        let open = self.requests.iter().copied().filter(|evacuation| !is_accepted(evacuation));
        open.map(DrainAct::Withdraw).collect()
    }

    /// Returns the withdrawals of the requests for pods that the rules no longer pick.
    fn dropped(&self) -> Vec<DrainAct<'a>> {
        let picked = |evacuation: &&Evacuation| {
            let uid = evacuation.spec.target.pod.uid.as_deref();
            self.pods.iter().any(|member| {
                !matches!(member.standing, Standing::Refused(_))
                    && member.seen.pod.metadata.uid.as_deref() == uid
            })
        };
        let dropped = self.requests.iter().copied().filter(|e| !picked(e) && !is_accepted(e));
        dropped.map(DrainAct::Withdraw).collect()
    }

    /// Returns true when no pod is left that must go.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns true when nothing moves, and something keeps a pod from being asked: the rules, or the API
    /// server.
    pub(super) fn is_kept_back(&self) -> bool {
        let kept =
            |m: &Member<'_, '_>| matches!(m.standing, Standing::Refused(_) | Standing::Rejected { .. });
        self.in_progress() == 0 && self.pods.iter().any(kept)
    }

    /// Returns what holds each pod.
    pub(super) fn judgements(
        &self,
        attach_failures: &[AttachFailure],
        now: DateTime<Utc>,
    ) -> Vec<PodJudgement> {
        let judged = |member: &Member<'w, 'a>| {
            let seen = member.seen;
            judge(
                &DrainedPod {
                    node: seen.node,
                    pod: seen.pod,
                    standing: member.standing.clone(),
                    budgets: seen.budgets.clone(),
                    unready: seen.unready.clone(),
                    attach_failures,
                    node_silent_since: seen.node_silent_since,
                },
                now,
            )
        };
        self.pods.iter().map(judged).collect()
    }

    /// Returns the node's phase: drained when no pod is left, and failed when only pods are left that were
    /// left alone, or those of later phases after them.
    pub(super) fn phase(&self) -> DrainedNodePhase {
        let Some(first) = self.first_phase() else { return DrainedNodePhase::Drained };
        let left = |member: &Member<'_, '_>| {
            matches!(member.standing, Standing::LeftAlone(_) | Standing::LeftAloneBefore(_))
        };
        let stays = self.pods.iter().filter(|m| m.phase == first).all(left);
        let moves = self.pods.iter().any(|m| matches!(m.standing, Standing::Asked(_) | Standing::Leaving));
        if stays && !moves { DrainedNodePhase::Failed } else { DrainedNodePhase::Draining }
    }
}

/// Returns the number of pods that may still be asked.
pub(super) fn room(spec: &NodeEvacuationSpec, nodes: &[NodePods<'_, '_>]) -> usize {
    let most = spec.max_parallel.as_ref().and_then(|limits| limits.pods);
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or_default());
    let busy = nodes.iter().map(NodePods::in_progress).fold(0, usize::saturating_add);
    most.saturating_sub(busy)
}

fn created(pod: &Pod) -> DateTime<Utc> {
    pod.metadata.creation_timestamp.as_ref().map_or(DateTime::UNIX_EPOCH, from_condition_time)
}

/// Returns the phase of a pod: the first that picks it, or the one after the last.
fn phase_of(pod: &Pod, phases: &[DrainPhase]) -> usize {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    let picks = |phase: &DrainPhase| {
        phase.selector.as_ref().is_none_or(|selector| selects(selector, labels))
            && phase.min_priority.is_none_or(|least| priority >= least)
            && phase.max_priority.is_none_or(|most| priority <= most)
    };
    phases.iter().position(picks).unwrap_or(phases.len())
}
