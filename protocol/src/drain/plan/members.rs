//! The pods that must go before a node is drained.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{DaemonSetRule, DrainPhase, DrainedNode, LateRule, NodeEvacuation, from_condition_time};
use k8s_openapi::api::core::v1::Pod;

use super::{
    PodOnNode,
    counts::record_of,
    returns::{Turn, turn},
};
use crate::drain::{
    DrainFilters, DrainSkip, DrainWarning, Picked,
    labels::is_picked,
    pick,
    verdict::{ROUNDS, Standing},
};

/// Phase of the pods of DaemonSets, after all others.
pub(super) const LAST: usize = usize::MAX;

/// A pod that must go before its node is drained.
pub(super) struct Member<'w, 'a> {
    pub(super) seen: &'w PodOnNode<'a>,
    pub(super) standing: Standing<'a>,
    pub(super) phase: usize,
    /// True for a pod that has ended: it is deleted without being asked.
    pub(super) completed: bool,
    /// True for a pod that came after the drain of its node began, and that no round has yet.
    pub(super) unrecorded: bool,
    /// The losses that its evacuation causes.
    pub(super) losses: Vec<DrainWarning>,
}

impl Member<'_, '_> {
    pub(super) fn uid(&self) -> Option<&str> {
        self.seen.pod.metadata.uid.as_deref()
    }

    /// Returns true for a pod that the drain's rules refuse.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.standing, Standing::Refused(_))
    }

    /// Returns true for a pod that was asked or leaves, also one that the drain would not move.
    pub(super) fn is_in_progress(&self) -> bool {
        matches!(self.standing, Standing::Asked(_) | Standing::Leaving)
            || self.seen.pod.metadata.deletion_timestamp.is_some()
    }

    /// Returns true for a pod whose owner puts its pods on the node again and again.
    pub(super) fn comes_back(&self) -> bool {
        matches!(&self.standing, Standing::Returned(returned) if returned.rounds >= ROUNDS)
    }

    pub(super) fn is_left_alone(&self) -> bool {
        matches!(self.standing, Standing::LeftAlone(_) | Standing::LeftAloneBefore(_))
    }
}

/// Rules by which a drain sorts the pods of one node.
pub(super) struct Rules<'n> {
    drain: &'n NodeEvacuation,
    node: &'n DrainedNode,
    filters: DrainFilters,
    /// Time at which the drain began the node.
    begun: DateTime<Utc>,
}

impl<'n> Rules<'n> {
    /// DaemonSets that do not exist are named in `missing`.
    pub(super) fn of(
        drain: &'n NodeEvacuation,
        node: &'n DrainedNode,
        missing: &BTreeSet<String>,
        now: DateTime<Utc>,
    ) -> Self {
        let begun = node.start_time.map_or(now, |time| time.0);
        Self { drain, node, filters: DrainFilters::of(&drain.spec, missing), begun }
    }

    /// Sorts the pods that are on the node: the refused ones, those to ask, and those that have ended. Names
    /// beside them those that terminate for too long to be waited for. `standing_of` tells the standing of a
    /// pod to ask.
    pub(super) fn members<'w, 'a>(
        &self,
        there: &[&'w PodOnNode<'a>],
        standing_of: impl Fn(&PodOnNode<'a>) -> Standing<'a>,
        now: DateTime<Utc>,
    ) -> (Vec<Member<'w, 'a>>, BTreeSet<&'a str>) {
        let seen: Vec<_> = there.iter().copied().filter(|seen| self.concerns(seen.pod)).collect();
        let picked = pick(seen.iter().map(|seen| seen.pod), &self.filters, now);
        let by_uid: ByUid<'w, 'a> =
            seen.iter().map(|seen| (seen.pod.metadata.uid.as_deref(), *seen)).collect();
        let mut members = self.refused(&picked, &by_uid);
        for seen in picked.evacuate.iter().filter_map(|pod| find(&by_uid, pod)) {
            let phase = if self.is_last(seen.pod) { LAST } else { self.phase_of(seen.pod) };
            let of_pod = picked.warnings.iter().filter(|(pod, _)| pod.metadata.uid == seen.pod.metadata.uid);
            let losses = of_pod.map(|(_, loss)| *loss).collect();
            let (standing, unrecorded) = self.in_turn(seen.pod, standing_of(seen), now);
            members.push(Member { seen, standing, phase, completed: false, unrecorded, losses });
        }
        for seen in picked.completed.iter().filter_map(|pod| find(&by_uid, pod)) {
            let (phase, losses) = (self.phase_of(seen.pod), Vec::new());
            let terminates = seen.pod.metadata.deletion_timestamp.is_some();
            let standing = if terminates { Standing::Leaving } else { Standing::Waiting };
            let (standing, unrecorded) = match self.in_turn(seen.pod, standing, now) {
                (Standing::Waiting, false) => (Standing::Leaving, false),
                in_turn => in_turn,
            };
            members.push(Member { seen, standing, phase, completed: true, unrecorded, losses });
        }
        let terminating = picked.skipped.iter().filter(|(_, why)| *why == DrainSkip::Terminating);
        (members, terminating.filter_map(|(pod, _)| record_of(pod)).collect())
    }

    /// Returns the pods that the drain's rules refuse, each with all reasons.
    fn refused<'w, 'a>(&self, picked: &Picked<'_>, by_uid: &ByUid<'w, 'a>) -> Vec<Member<'w, 'a>> {
        let mut members: Vec<Member<'w, 'a>> = Vec::new();
        for (pod, why) in &picked.refused {
            let known = members.iter_mut().find(|member| member.seen.pod.metadata.uid == pod.metadata.uid);
            match (known.map(|member| &mut member.standing), find(by_uid, pod)) {
                (Some(Standing::Refused(reasons)), _) => reasons.push(*why),
                (_, Some(seen)) => {
                    let (standing, phase) = (Standing::Refused(vec![*why]), self.phase_of(pod));
                    let (unrecorded, losses) = (false, Vec::new());
                    members.push(Member { seen, standing, phase, completed: false, unrecorded, losses });
                }
                (_, None) => {}
            }
        }
        members
    }

    /// Returns the standing of a pod that may be asked or deleted, if its turn has come, and whether its
    /// round is to be recorded first.
    fn in_turn<'a>(&self, pod: &Pod, standing: Standing<'a>, now: DateTime<Utc>) -> (Standing<'a>, bool) {
        // Creations are stamped in whole seconds: one of the second of the beginning may be later than that.
        let may_be_late = created(pod).timestamp() >= self.begun.timestamp();
        if !matches!(standing, Standing::Waiting) || !may_be_late {
            return (standing, false);
        }
        match turn(self.node, pod, now) {
            Turn::Now => (standing, false),
            Turn::Next => (standing, true),
            Turn::At(returned) => (Standing::Returned(returned), false),
        }
    }

    /// Returns true for a pod that the drain's rules do not leave out from the start.
    fn concerns(&self, pod: &Pod) -> bool {
        let rules = &self.drain.spec.pods;
        let is_late = rules.late.unwrap_or_default() == LateRule::Skip && created(pod) > self.begun;
        !is_late && !self.is_replacement(pod) && is_picked(pod, rules.selector.as_ref())
    }

    /// Returns true for a pod that a DaemonSet has created in place of one that was asked last.
    fn is_replacement(&self, pod: &Pod) -> bool {
        let recorded = &self.node.daemon_set_pods;
        let is_recorded = recorded.iter().any(|uid| Some(uid) == pod.metadata.uid.as_ref());
        !recorded.is_empty() && self.is_last(pod) && !is_recorded
    }

    /// Returns true for a pod that is asked in the phase [`LAST`].
    fn is_last(&self, pod: &Pod) -> bool {
        self.filters.daemon_sets == DaemonSetRule::Last && self.filters.has_living_daemon_set(pod)
    }

    /// Returns the phase of a pod: the first that picks it, or the one after the last.
    fn phase_of(&self, pod: &Pod) -> usize {
        let phases = &self.drain.spec.phases;
        phases.iter().position(|phase| picks(phase, pod)).unwrap_or(phases.len())
    }
}

fn created(pod: &Pod) -> DateTime<Utc> {
    pod.metadata.creation_timestamp.as_ref().map_or(DateTime::UNIX_EPOCH, from_condition_time)
}

/// Pods of a node by UID.
type ByUid<'w, 'a> = BTreeMap<Option<&'a str>, &'w PodOnNode<'a>>;

fn find<'w, 'a>(by_uid: &ByUid<'w, 'a>, pod: &Pod) -> Option<&'w PodOnNode<'a>> {
    by_uid.get(&pod.metadata.uid.as_deref()).copied()
}

fn picks(phase: &DrainPhase, pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    is_picked(pod, phase.selector.as_ref())
        && phase.min_priority.is_none_or(|least| priority >= least)
        && phase.max_priority.is_none_or(|most| priority <= most)
}
