//! The pods of one node: which are asked now, and what becomes of the others.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonPolicy, DrainedNode, DrainedNodePhase, Evacuation, LeftAlonePod, MAX_DAEMON_SET_PODS,
    NodeEvacuation, NodeEvacuationSpec, Requester,
};

use k8s_openapi::api::core::v1::Pod;

use super::{
    DrainAct, PodOnNode,
    counts::{Present, record_of},
    members::{LAST, Member, Rules},
    standing::{is_accepted, is_active, own, standing},
};
use crate::{
    Phase,
    drain::{
        DrainWarning,
        lifecycle::Shutdown,
        verdict::{AttachFailure, DrainedPod, PodJudgement, Standing, judge, record},
    },
    phase,
};

/// The pods of one node that its drain concerns.
pub(super) struct NodePods<'w, 'a> {
    pub(super) node: String,
    drain: Option<String>,
    /// True when the drain has no pod selector.
    selects_all: bool,
    cordon: CordonPolicy,
    /// The first characters of the UIDs of all pods on the node: see [`record_of`].
    there: BTreeSet<&'a str>,
    /// Those of them that terminate for too long to be waited for.
    skipped: BTreeSet<&'a str>,
    pods: Vec<Member<'w, 'a>>,
    /// The active Evacuations of its pods that hold the drain's entry, also of pods that the rules no longer
    /// pick.
    requests: Vec<&'a Evacuation>,
    /// True once the pods are recorded that are asked in the phase [`LAST`].
    last_begun: bool,
}

/// The node of [`NodePods`].
#[derive(Clone, Copy)]
pub(super) struct OfNode<'n> {
    /// The drain's record of it.
    pub(super) node: &'n DrainedNode,
    /// Its graceful shutdown.
    pub(super) shutdown: Option<Shutdown>,
}

impl<'w, 'a> NodePods<'w, 'a> {
    /// Sorts the pods that are on a node. DaemonSets that do not exist are named in `missing`.
    pub(super) fn of(
        OfNode { node, shutdown }: OfNode<'_>,
        drain: &NodeEvacuation,
        entry: &Requester,
        there: &[&'w PodOnNode<'a>],
        missing: &BTreeSet<String>,
        now: DateTime<Utc>,
    ) -> Self {
        let requests = there.iter().flat_map(|seen| seen.evacuations.iter().copied());
        let requests = requests.filter(|e| is_active(e) && own(e, entry).is_some()).collect();
        let left_alone = drain.status.as_ref().map(|status| status.left_alone.as_slice()).unwrap_or_default();
        let (pods, skipped) = Rules::of(drain, node, missing, now).members(
            there,
            |seen| match (standing(seen, entry, left_alone), shutdown) {
                (Standing::Waiting | Standing::Rejected { .. }, Some(Shutdown { since, until })) => {
                    Standing::ShutDown { since, until }
                }
                (standing, _) => standing,
            },
            now,
        );
        Self {
            node: node.name.clone(),
            drain: drain.metadata.name.clone(),
            selects_all: drain.spec.pods.selector.is_none(),
            cordon: drain.spec.cordon.unwrap_or_default(),
            there: there.iter().filter_map(|seen| record_of(seen.pod)).collect(),
            skipped,
            pods,
            requests,
            last_begun: !node.daemon_set_pods.is_empty(),
        }
    }

    /// Returns true when it is time to cordon the node.
    pub(super) fn is_due(&self, policy: CordonPolicy) -> bool {
        match policy {
            CordonPolicy::Never => false,
            CordonPolicy::BeforeAsking => true,
            CordonPolicy::AfterAnswers => {
                let mut others = self.pods.iter().filter(|member| member.phase != LAST);
                let waits =
                    |standing: &Standing<'_>| matches!(standing, Standing::Waiting | Standing::Returned(_));
                !others.any(|member| waits(&member.standing) && !member.comes_back())
                    && self.asked().all(|e| matches!(phase(e), Phase::Evicting | Phase::Evacuated))
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
    pub(super) fn in_progress(&self) -> usize {
        self.pods.iter().filter(|member| member.is_in_progress()).count()
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
        acts.extend(self.changed(entry));
        let first = self.first_phase().filter(|phase| *phase != LAST || self.last_begun);
        // A pod that the API server rejects takes no place from one that was not asked yet.
        let of_phase = self.pods.iter().filter(|member| Some(member.phase) == first);
        let (rejected, others): (Vec<_>, Vec<_>) =
            of_phase.partition(|member| matches!(member.standing, Standing::Rejected { .. }));
        for member in others.into_iter().chain(rejected) {
            let pod = member.seen.pod;
            match &member.standing {
                _ if member.unrecorded => {}
                Standing::Waiting | Standing::Rejected { .. } if !paused && *room > 0 => {
                    *room = room.saturating_sub(1);
                    losses.extend(&member.losses);
                    let active = member.seen.evacuations.iter().find(|e| is_active(e)).copied();
                    let entry = Box::new(entry.clone());
                    acts.push(active.map_or_else(
                        || DrainAct::Ask(pod, entry.clone()),
                        |active| DrainAct::Join(active, entry.clone()),
                    ));
                }
                Standing::Leaving
                    if member.completed && !paused && pod.metadata.deletion_timestamp.is_none() =>
                {
                    acts.push(DrainAct::Remove(pod));
                }
                _ => {}
            }
        }
        acts
    }

    /// Returns the pods of the phase that is due that came after the drain began, and that no round has yet.
    pub(super) fn unrecorded(&self) -> impl Iterator<Item = &'a Pod> {
        let first = self.first_phase();
        let due = self.pods.iter().filter(move |member| member.unrecorded && Some(member.phase) == first);
        due.map(|member| member.seen.pod)
    }

    /// Returns the pods that came after the drain began, and that no round has yet, of any phase.
    pub(super) fn late(&self) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(|member| member.unrecorded).map(|member| member.seen.pod)
    }

    /// Returns the pods that were not asked, as [`record_of`] names them.
    pub(super) fn waiting(&self) -> BTreeSet<&str> {
        let waiting = self.pods.iter().filter(|member| matches!(member.standing, Standing::Waiting));
        waiting.filter_map(|member| record_of(member.seen.pod)).collect()
    }

    /// Returns the phase that is due. A pod that the rules refuse, or that comes back, holds up no phase: a
    /// tenant could place it to stop the others.
    fn first_phase(&self) -> Option<usize> {
        let held = |member: &&Member<'_, '_>| !member.is_refused() && !member.comes_back();
        self.pods.iter().filter(held).map(|member| member.phase).min()
    }

    /// Returns the UIDs of the DaemonSet pods to ask, when all others are gone and these are not recorded
    /// yet. At most [`MAX_DAEMON_SET_PODS`]: those of the highest priority, which no tenant gives its pods.
    pub(super) fn last_phase(&self) -> Option<Vec<String>> {
        let alone = !self.pods.iter().any(|member| member.is_refused() || member.comes_back());
        let due = !self.last_begun && alone && self.first_phase() == Some(LAST);
        let uids = self.pods.iter().filter_map(Member::uid).map(str::to_owned);
        due.then(|| uids.skip(self.pods.len().saturating_sub(MAX_DAEMON_SET_PODS)).collect())
    }

    /// Returns the records of the pods that were left alone and whose Evacuations are known.
    pub(super) fn left_alone(&self, now: DateTime<Utc>) -> Vec<LeftAlonePod> {
        let known = self.pods.iter().filter_map(|member| match member.standing {
            Standing::LeftAlone(evacuation) => Some(record(&self.node, member.seen.pod, evacuation, now)),
            _ => None,
        });
        known.collect()
    }

    /// Returns the withdrawals of every request on the node that can still be taken back.
    pub(super) fn withdrawals(&self) -> Vec<DrainAct<'a>> {
        let open = self.requests.iter().copied().filter(|evacuation| !is_accepted(evacuation));
        open.map(DrainAct::Withdraw).collect()
    }

    /// Returns the changes of the entries that differ from the drain's entry of now, whatever the phase of
    /// their pods: a pod can be asked before another one of an earlier phase comes.
    fn changed(&self, entry: &Requester) -> impl Iterator<Item = DrainAct<'a>> {
        let changed = self.asked().filter(move |evacuation| own(evacuation, entry) != Some(entry));
        changed.map(|evacuation| DrainAct::Join(evacuation, Box::new(entry.clone())))
    }

    /// Returns the withdrawals of the requests for pods that the rules no longer pick.
    fn dropped(&self) -> Vec<DrainAct<'a>> {
        let picked: BTreeSet<_> =
            self.pods.iter().filter(|member| !member.is_refused()).map(Member::uid).collect();
        let mut acts = self.withdrawals();
        acts.retain(|act| match act {
            DrainAct::Withdraw(e) => !picked.contains(&e.spec.target.pod.uid.as_deref()),
            _ => true,
        });
        acts
    }

    /// Returns the pods of the node, as they are counted.
    pub(super) fn present(&self) -> Present<'_> {
        Present {
            left: self.pods.iter().filter_map(|member| record_of(member.seen.pod)).collect(),
            there: &self.there,
            skipped: &self.skipped,
        }
    }

    /// Returns true when no pod is left that must go.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns true when nothing moves, and something keeps a pod from being asked: the rules, the API
    /// server, or a pause after earlier pods of its owner came back.
    pub(super) fn is_kept_back(&self) -> bool {
        let is_kept = |member: &Member<'_, '_>| {
            matches!(member.standing, Standing::Rejected { .. } | Standing::Returned(_))
        };
        self.in_progress() == 0 && self.pods.iter().any(|member| member.is_refused() || is_kept(member))
    }

    /// Returns what holds each pod of a node that was found deleted at that time, if ever.
    pub(super) fn judgements(
        &self,
        attach_failures: &[AttachFailure],
        node_deleted: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Vec<PodJudgement> {
        let pods = self.pods.iter().map(|Member { seen, standing, .. }| DrainedPod {
            drain: self.drain.as_deref(),
            selects_all: self.selects_all,
            node: seen.node,
            cordon: self.cordon,
            pod: seen.pod,
            standing: standing.clone(),
            budgets: seen.budgets.clone(),
            unready: Some(seen.unready.clone()),
            asked_beside: seen.asked_beside,
            attach_failures,
            node_silent_since: seen.node_silent_since,
            node_deleted,
        });
        pods.map(|pod| judge(&pod, now)).collect()
    }

    /// Returns the node's phase: drained when no pod is left, and failed when only pods are left that were
    /// left alone, or those of later phases after them.
    pub(super) fn phase(&self) -> DrainedNodePhase {
        let first = self.pods.iter().map(|member| member.phase).min();
        let Some(first) = first else { return DrainedNodePhase::Drained };
        let stays = self.pods.iter().filter(|member| member.phase == first).all(Member::is_left_alone);
        let moves = self.pods.iter().any(Member::is_in_progress);
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
