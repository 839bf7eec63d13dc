//! The plan of a drain: the status that follows from the cluster, and the acts to do now.
//!
//! # Flow
//!
//! [`plan`] takes in the nodes, moves each node to its next phase, asks pods of the nodes that are being
//! drained, and sums up what holds each pod. A deleted drain takes its requests back, waits until the
//! responders know, and releases its nodes.
//!
//! # Guarantees
//!
//! Acts follow only from a phase that is stored: the drain first records that it begins a node, then cordons
//! it, then asks. Nothing is asked on a node that is not cordoned, unless the spec says so. An act that is
//! repeated after a restart does no harm.

mod blockers;
mod conditions;
mod cordon;
mod counts;
mod entry;
mod left_alone;
mod nodes;
mod pods;
mod preview;
mod standing;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonOwner, CordonPolicy, DrainBlocker, DrainConditionType, DrainVerdict, DrainedNode, DrainedNodePhase,
    Evacuation, NodeEvacuation, NodeEvacuationStatus, Requester,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

pub use cordon::{CordonChange, cordon, forget_holders, holders as cordon_holders, release};
pub use entry::{drain_entry, drain_expiry};
pub use preview::{DrainSight, preview};

use super::{
    DrainWarning,
    verdict::{AttachFailure, PodJudgement, summarize},
};
use crate::time::{after, sooner, stamp};
use cordon::CordonState;
use counts::add_up;
use entry::start_time;
use pods::NodePods;

/// Period after which a drain in progress is planned again, in seconds, although nothing changed: a request
/// that was rejected is made again.
const LOOK_AGAIN_SECONDS: i64 = 5;

/// The part of the cluster that a drain depends on.
#[derive(Debug, Default)]
pub struct DrainWorld<'a> {
    /// The nodes that the drain names, has taken in, or that its selector picks.
    pub nodes: Vec<&'a Node>,
    /// The pods on the nodes that are being drained.
    pub pods: Vec<PodOnNode<'a>>,
    /// The Evacuations that hold or held the drain's entry. Needed only when the drain is deleted.
    pub entries: Vec<&'a Evacuation>,
    /// The nodes that the API server did not let the controller cordon.
    pub rejected_nodes: Vec<RejectedNode<'a>>,
    /// DaemonSets that pods on these nodes name as their controller and that do not exist, as
    /// `NAMESPACE/NAME`.
    pub missing_daemon_sets: BTreeSet<String>,
    /// Volumes that cannot be attached, of the pods in [`PodOnNode::unready`].
    pub attach_failures: Vec<AttachFailure>,
}

/// A node that the API server did not let the controller cordon.
#[derive(Clone, Copy, Debug)]
pub struct RejectedNode<'a> {
    /// The node's name.
    pub node: &'a str,
    /// Reply of the API server.
    pub message: &'a str,
    /// Time of the first rejection.
    pub since: DateTime<Utc>,
}

/// A pod on a drained node, with what the cluster shows of it.
#[derive(Debug)]
pub struct PodOnNode<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The pod.
    pub pod: &'a Pod,
    /// The Evacuations of this pod, by its UID; finished ones too.
    pub evacuations: Vec<&'a Evacuation>,
    /// The budgets that select it.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// The pods that its budgets select, or that have its controller, and that are not ready and not
    /// terminating.
    pub unready: Vec<&'a Pod>,
    /// Time since which the node's kubelet does not report.
    pub node_silent_since: Option<DateTime<Utc>>,
    /// Reply of the API server that rejected the request for the pod, and the time of the first one.
    pub rejected: Option<(&'a str, DateTime<Utc>)>,
}

/// One act of a drain. Each is guarded by the state that was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum DrainAct<'a> {
    /// Cordon the node and add the drain to its holders: [`cordon`].
    Cordon(&'a Node),
    /// Remove the drain from the node's holders, and uncordon it when none is left: [`release`].
    Release(&'a Node),
    /// Create an Evacuation of the pod with that entry.
    Ask(&'a Pod, Box<Requester>),
    /// Add that entry to an active Evacuation, or replace the drain's entry by it.
    Join(&'a Evacuation, Box<Requester>),
    /// Remove the drain's entry from an active Evacuation.
    Withdraw(&'a Evacuation),
    /// Delete a pod that has ended.
    Remove(&'a Pod),
    /// Delete the drain, which has ended: its time to live is over.
    Delete,
    /// Remove the finalizer of the deleted drain: nothing is left to undo.
    ReleaseFinalizer,
}

/// The next status, the acts, and the time of the next look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainPlan<'a> {
    /// The status to write, if it differs from the stored one.
    pub status: NodeEvacuationStatus,
    /// The acts to do now.
    pub acts: Vec<DrainAct<'a>>,
    /// Losses that the requests among the acts cause, because the drain's rules allow them.
    pub losses: BTreeSet<DrainWarning>,
    /// The time to plan again if nothing changes before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// Plans the next step of a drain.
pub fn plan<'a>(drain: &NodeEvacuation, world: &DrainWorld<'a>, now: DateTime<Utc>) -> DrainPlan<'a> {
    let stored = drain.status.clone().unwrap_or_default();
    if drain.metadata.deletion_timestamp.is_some() {
        return withdrawal::withdraw(drain, stored, world, now);
    }
    if stored.is_true(DrainConditionType::Finished) {
        let expiry = drain_expiry(drain);
        let (acts, wake_at) = match expiry {
            Some(time) if time <= now => (vec![DrainAct::Delete], None),
            later => (Vec::new(), later),
        };
        return DrainPlan { status: stored, acts, wake_at, ..DrainPlan::default() };
    }
    let mut plan =
        Planner { drain, world, now, next: stored, acts: Vec::new(), losses: BTreeSet::new(), wake_at: None };
    plan.run();
    DrainPlan { status: plan.next, acts: plan.acts, losses: plan.losses, wake_at: plan.wake_at }
}

/// The state of one planning.
struct Planner<'d, 'w, 'a> {
    drain: &'d NodeEvacuation,
    world: &'w DrainWorld<'a>,
    now: DateTime<Utc>,
    next: NodeEvacuationStatus,
    acts: Vec<DrainAct<'a>>,
    losses: BTreeSet<DrainWarning>,
    wake_at: Option<DateTime<Utc>>,
}

impl<'w, 'a> Planner<'_, 'w, 'a> {
    fn run(&mut self) {
        self.next.observed_generation = self.drain.metadata.generation;
        let paused = self.drain.spec.paused;
        conditions::set_paused(&mut self.next, paused, self.now);
        let Some(start) = start_time(self.drain) else {
            return self.wait("its window never opens");
        };
        self.next.start_time = Some(stamp(start));
        if self.now < start {
            self.wake(start);
            return self.wait("it waits for its window");
        }
        let Some(entry) = drain_entry(self.drain) else {
            return self.wait("the server has not recorded who asks");
        };
        nodes::take_in(&mut self.next, &self.drain.spec.nodes, &self.world.nodes);
        nodes::begin(&mut self.next, &self.drain.spec, &self.world.nodes, self.now);
        let judgements = self.drain_nodes(&entry);
        self.sum_up(&judgements);
    }

    /// Drains each node that is in progress, and returns the judgements of its pods.
    fn drain_nodes(&mut self, entry: &Requester) -> Vec<PodJudgement> {
        let mut on_nodes: BTreeMap<&str, Vec<&'w PodOnNode<'a>>> = BTreeMap::new();
        for seen in &self.world.pods {
            on_nodes.entry(seen.node).or_default().push(seen);
        }
        let missing = &self.world.missing_daemon_sets;
        let of = |node: &DrainedNode| {
            let there = on_nodes.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default();
            NodePods::of(node, self.drain, entry, there, missing, self.now)
        };
        let pods: Vec<NodePods<'w, 'a>> = self.stored_as(DrainedNodePhase::Draining).map(of).collect();
        // A request that was under way when a node was uncordoned can arrive later.
        let withdrawn: Vec<NodePods<'w, 'a>> = self.stored_as(DrainedNodePhase::Withdrawn).map(of).collect();
        self.acts.extend(withdrawn.iter().flat_map(NodePods::withdrawals));
        left_alone::update(&mut self.next, self.world, &pods, self.now);
        let mut room = pods::room(&self.drain.spec, &pods);
        let mut all = Vec::new();
        for of_node in pods {
            all.extend(self.drain_node(&of_node, entry, &mut room));
        }
        all
    }

    fn stored_as(&self, phase: DrainedNodePhase) -> impl Iterator<Item = &DrainedNode> {
        let stored = self.drain.status.iter().flat_map(|status| &status.nodes);
        stored.filter(move |node| node.phase == phase)
    }

    fn drain_node(
        &mut self,
        pods: &NodePods<'w, 'a>,
        entry: &Requester,
        room: &mut usize,
    ) -> Vec<PodJudgement> {
        let place = self.next.nodes.iter().position(|node| node.name == pods.node);
        let found = place.and_then(|place| Some((place, self.next.nodes.get(place)?.clone())));
        let Some((place, mut node)) = found else { return Vec::new() };
        let name = self.drain.metadata.name.as_deref().unwrap_or_default();
        let live = self.world.nodes.iter().copied().find(|live| nodes::is(live, &node));
        let judgements = match live.map(|live| (live, cordon::state(live, name))) {
            None => {
                self.end_of_node(&mut node, pods);
                Vec::new()
            }
            Some((live, state))
                if self.drain.spec.cordon != Some(CordonPolicy::Never)
                    && cordon::is_taken_back(state, node.cordoned) =>
            {
                self.take_back(&mut node, live, pods);
                Vec::new()
            }
            Some((live, state)) => self.continue_node(&mut node, (live, state), pods, entry, room),
        };
        if node.phase.is_final() {
            node.daemon_set_pods.clear();
        }
        if let Some(place) = self.next.nodes.get_mut(place) {
            *place = node;
        }
        judgements
    }

    /// Ends the drain of a node that was deleted: the cluster removes its pods. The pods of a node that
    /// registered again live on, and are left alone.
    fn end_of_node(&mut self, node: &mut DrainedNode, pods: &NodePods<'w, 'a>) {
        let again = self.world.nodes.iter().any(|live| live.metadata.name.as_ref() == Some(&node.name));
        if pods.is_empty() {
            return nodes::gone(node);
        }
        if !again {
            node.verdict = DrainVerdict::Draining;
            node.message = Some("the node was deleted, and its pods are being removed".to_owned());
            return;
        }
        let undo = pods.withdrawals();
        if undo.is_empty() {
            node.phase = DrainedNodePhase::Withdrawn;
            node.cordoned = CordonOwner::No;
        }
        self.acts.extend(undo);
        node.verdict = DrainVerdict::Waiting;
        node.message = Some("another node took its name, and the drain leaves its pods alone".to_owned());
    }

    /// Takes the requests back on a node that someone else uncordoned, and then leaves the node alone.
    fn take_back(&mut self, node: &mut DrainedNode, live: &'a Node, pods: &NodePods<'w, 'a>) {
        let name = self.drain.metadata.name.as_deref().unwrap_or_default();
        let mut undo = pods.withdrawals();
        if undo.is_empty() && cordon::is_held(live, name) {
            undo.push(DrainAct::Release(live));
        }
        if undo.is_empty() {
            node.phase = DrainedNodePhase::Withdrawn;
            node.cordoned = CordonOwner::No;
        }
        self.acts.extend(undo);
        node.verdict = DrainVerdict::Waiting;
        node.message = Some("it was uncordoned, so the drain takes its requests back".to_owned());
    }

    /// Cordons a node and asks its pods.
    fn continue_node(
        &mut self,
        node: &mut DrainedNode,
        (live, state): (&'a Node, CordonState),
        pods: &NodePods<'w, 'a>,
        entry: &Requester,
        room: &mut usize,
    ) -> Vec<PodJudgement> {
        node.cordoned = state.owner();
        let spec = &self.drain.spec;
        let policy = spec.cordon.unwrap_or_default();
        let is_due = pods.may_begin() && pods.is_due(policy) && !(spec.paused && state == CordonState::No);
        if is_due && !state.is_settled() {
            self.acts.push(DrainAct::Cordon(live));
        }
        if policy != CordonPolicy::BeforeAsking || state.is_settled() {
            self.acts.extend(pods.acts(entry, spec.paused, room, &mut self.losses));
        }
        let mut judgements = pods.judgements(&self.world.attach_failures, self.now);
        let before = self.drain.status.iter().flat_map(|status| &status.blockers).cloned();
        let before: Vec<DrainBlocker> = before.collect();
        for judgement in &mut judgements {
            judgement.keep_since(&before);
        }
        let summary = summarize(&judgements, self.now);
        node.verdict = summary.verdict;
        node.message = Some(summary.message);
        if policy == CordonPolicy::BeforeAsking && !state.is_settled() {
            counts::set_unasked(&mut node.pods, summary.counts);
        } else {
            counts::set(&mut node.pods, summary.counts);
        }
        // A node that others can still put pods on is not drained.
        let is_held = policy == CordonPolicy::Never || state.is_settled();
        node.phase = if is_held { pods.phase() } else { DrainedNodePhase::Draining };
        if let Some(last) = pods.last_phase().filter(|_| is_held && !spec.paused) {
            node.daemon_set_pods = last;
        }
        if let Some(deadline) = entry.deadline {
            let rejected = self.world.rejected_nodes.iter().any(|rejected| rejected.node == node.name);
            if deadline.time() > self.now {
                self.wake(deadline.time());
            } else if pods.is_kept_back() || (rejected && !is_held) {
                // No entry was made that could act at its deadline.
                node.phase = DrainedNodePhase::Failed;
            }
        }
        judgements
    }

    fn sum_up(&mut self, judgements: &[PodJudgement]) {
        let summary = summarize(judgements, self.now);
        let next = &mut self.next;
        next.pods = add_up(&next.nodes);
        let failed = blockers::of_failed(&next.blockers, next);
        let rejected = blockers::of_nodes(next, self.world);
        let is_rejected = rejected.first().map(|first| format!("{}: {}", first.node, first.message));
        next.blockers = summary.blockers;
        next.blockers_omitted = summary.blockers_omitted;
        blockers::add(next, failed);
        blockers::add(next, rejected);
        let open = next.nodes.iter().filter(|node| !node.phase.is_final()).count();
        let draining = next.nodes.iter().any(|node| node.phase == DrainedNodePhase::Draining);
        let all_begun = next.nodes.iter().all(|node| node.phase != DrainedNodePhase::Pending);
        next.expected_completion = summary.expected.filter(|_| all_begun && draining).map(stamp);
        if draining {
            // A node whose pods are all gone is found drained in the next round.
            let judged = !judgements.is_empty();
            next.verdict = Some(if judged { summary.verdict } else { DrainVerdict::Draining });
            next.message = Some(if judged { summary.message } else { "pods are being counted".to_owned() });
            if let Some(message) = is_rejected {
                next.verdict = Some(DrainVerdict::Stuck);
                next.message = Some(message);
            }
            self.wake_at = sooner(self.wake_at, summary.changes_at);
            self.wake(after(self.now, LOOK_AGAIN_SECONDS));
        } else if open > 0 {
            next.verdict = Some(DrainVerdict::Waiting);
            let paused = self.drain.spec.paused;
            let why = if paused { "it is paused" } else { "its nodes wait for their turn" };
            next.message = Some(why.to_owned());
        } else if next.nodes.is_empty() && !self.drain.spec.nodes.follow {
            conditions::end_without_nodes(next, self.now);
        } else if next.nodes.is_empty() {
            next.verdict = Some(DrainVerdict::Waiting);
            next.message = Some("no node matches its selector".to_owned());
        } else {
            conditions::end(next, self.drain.spec.nodes.follow, self.now);
        }
        nodes::tell_omitted(&mut self.next);
    }

    fn wait(&mut self, why: &str) {
        self.next.verdict = Some(DrainVerdict::Waiting);
        self.next.message = Some(why.to_owned());
    }

    fn wake(&mut self, time: DateTime<Utc>) {
        self.wake_at = sooner(self.wake_at, Some(time));
    }
}

#[cfg(test)]
mod tests;
