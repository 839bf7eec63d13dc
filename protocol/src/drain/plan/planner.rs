//! The next step of a drain that is in progress.

mod departures;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonPolicy, DrainBlocker, DrainPodCounts, DrainVerdict, DrainedNode, DrainedNodePhase,
    MAX_COUNTED_PODS, MAX_RETURNED_OWNERS, NodeEvacuation, NodeEvacuationStatus, Requester,
};
use k8s_openapi::api::core::v1::{Node, Pod};

use self::departures::withdrawn;
use super::{
    DrainAct, DrainPlan, DrainWorld, PodOnNode, blockers, conditions,
    cordon::{self, CordonState},
    counts::{self, add_up},
    entry::{drain_entry, start_time},
    left_alone, nodes,
    pods::{self, NodePods, OfNode},
    returns,
};
use crate::{
    drain::{
        DrainFilters, DrainWarning,
        labels::is_picked,
        lifecycle::shutdown,
        pick,
        verdict::{PodJudgement, stayed, summarize},
    },
    status::truncated,
    time::{after, sooner, stamp},
};

/// Period after which a drain in progress is planned again, in seconds, although nothing changed: a request
/// that was rejected is made again.
const LOOK_AGAIN_SECONDS: i64 = 5;

/// The state of one planning.
pub(super) struct Planner<'d, 'w, 'a> {
    drain: &'d NodeEvacuation,
    world: &'w DrainWorld<'a>,
    now: DateTime<Utc>,
    next: NodeEvacuationStatus,
    acts: Vec<DrainAct<'a>>,
    losses: BTreeSet<DrainWarning>,
    /// The records of owners whose late pods are there, by the names of their nodes.
    used_records: BTreeMap<String, BTreeSet<(String, Option<String>)>>,
    wake_at: Option<DateTime<Utc>>,
}

impl<'d, 'w, 'a> Planner<'d, 'w, 'a> {
    /// Plans the next step of a drain that is in progress and has that status.
    pub(super) fn plan(
        drain: &'d NodeEvacuation,
        stored: NodeEvacuationStatus,
        world: &'w DrainWorld<'a>,
        now: DateTime<Utc>,
    ) -> DrainPlan<'a> {
        let (acts, losses) = (Vec::new(), BTreeSet::new());
        let used_records = BTreeMap::new();
        let mut plan = Self { drain, world, now, next: stored, acts, losses, used_records, wake_at: None };
        plan.run();
        DrainPlan { status: plan.next, acts: plan.acts, losses: plan.losses, wake_at: plan.wake_at }
    }

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
        self.count_pending();
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
        // A deadline that was reached acts, whatever a kubelet does.
        let overdue = entry.deadline.is_some_and(|deadline| deadline.time() <= self.now);
        let of = |node: &DrainedNode| {
            let there = on_nodes.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let live = self.world.nodes.iter().copied().find(|live| nodes::is(live, node));
            let shutdown = live.filter(|_| !overdue).and_then(|live| shutdown(live, self.now));
            NodePods::of(OfNode { node, shutdown }, self.drain, entry, there, missing, self.now)
        };
        let pods: Vec<NodePods<'w, 'a>> = self.stored_as(DrainedNodePhase::Draining).map(of).collect();
        // A request that was under way when a node was uncordoned can arrive later.
        let withdrawn: Vec<NodePods<'w, 'a>> = self.stored_as(DrainedNodePhase::Withdrawn).map(of).collect();
        self.acts.extend(withdrawn.iter().flat_map(NodePods::withdrawals));
        left_alone::update(&mut self.next, self.world, &pods, self.now);
        let mut room = pods::room(&self.drain.spec, &pods);
        self.used_records = self
            .stored_as(DrainedNodePhase::Draining)
            .zip(&pods)
            .map(|(node, pods)| (node.name.clone(), returns::records_of(node, pods.late())))
            .collect();
        let mut all = Vec::new();
        for of_node in pods {
            all.extend(self.drain_node(&of_node, entry, &mut room));
        }
        all
    }

    /// Counts the pods of the nodes whose drain has not begun.
    fn count_pending(&mut self) {
        let rules = &self.drain.spec.pods;
        let filters = DrainFilters::of(&self.drain.spec, &self.world.missing_daemon_sets);
        let mut on_nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for (node, pod) in
            self.world.waiting.iter().filter(|(_, pod)| is_picked(pod, rules.selector.as_ref()))
        {
            on_nodes.entry(node).or_default().push(pod);
        }
        for node in self.next.nodes.iter_mut().filter(|node| node.phase == DrainedNodePhase::Pending) {
            let there = on_nodes.remove(node.name.as_str()).unwrap_or_default();
            counts::set_pending(&mut node.pods, &pick(there, &filters, self.now));
        }
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
            None => self.follow_deleted(&mut node, pods, entry),
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
            node.counted_pods.clear();
            node.returned.clear();
        }
        if let Some(place) = self.next.nodes.get_mut(place) {
            *place = node;
        }
        judgements
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
        let is_due = pods.is_due(policy) && !(spec.paused && state == CordonState::No);
        if is_due && !state.is_settled() {
            self.acts.push(DrainAct::Cordon(live));
        }
        if policy != CordonPolicy::BeforeAsking || state.is_settled() {
            if !spec.paused && *room > 0 {
                self.begin_rounds(node, pods);
            }
            self.acts.extend(pods.acts(entry, spec.paused, room, &mut self.losses));
        }
        node.deleted_time = None;
        let judgements = self.judge(node, pods);
        let summary = summarize(&judgements, self.now);
        node.message = Some(summary.message);
        if policy == CordonPolicy::BeforeAsking && !state.is_settled() {
            counts::set_unasked(node, summary.counts);
        } else {
            self.count(node, summary.counts, pods);
        }
        node.verdict = begun(summary.verdict, node.pods.gone, spec.paused);
        // A node that others can still put pods on is not drained.
        let is_held = policy == CordonPolicy::Never || state.is_settled();
        node.phase = if is_held { pods.phase() } else { DrainedNodePhase::Draining };
        if node.phase == DrainedNodePhase::Drained && node.pods.skipped > 0 {
            node.message = Some(counts::ended(&node.pods));
        }
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
        if node.phase == DrainedNodePhase::Failed {
            self.tell_failure(node, &judgements);
        }
        judgements
    }

    /// Returns what holds each pod of a node.
    fn judge(&self, node: &DrainedNode, pods: &NodePods<'w, 'a>) -> Vec<PodJudgement> {
        let deleted = node.deleted_time.map(|time| time.0);
        let mut judgements = pods.judgements(&self.world.attach_failures, deleted, self.now);
        let before = self.drain.status.iter().flat_map(|status| &status.blockers).cloned();
        let before: Vec<DrainBlocker> = before.collect();
        for judgement in &mut judgements {
            judgement.keep_since(&before, self.now);
        }
        judgements
    }

    /// Takes in the numbers of the pods that are left on a node.
    fn count(&self, node: &mut DrainedNode, left: DrainPodCounts, pods: &NodePods<'w, 'a>) {
        let others = self.next.nodes.iter().filter(|other| other.name != node.name);
        let recorded: usize = others.map(|other| other.counted_pods.len()).sum();
        let room = MAX_COUNTED_PODS.saturating_sub(recorded);
        counts::set(node, left, &pods.present(), self.is_changed(), room);
    }

    /// Records the rounds of late pods that begin.
    fn begin_rounds(&mut self, node: &mut DrainedNode, pods: &NodePods<'w, 'a>) {
        let new = returns::new_records(node, pods.unrecorded());
        let others = |nodes: &mut [DrainedNode]| -> usize {
            nodes.iter().filter(|other| other.name != node.name).map(|other| other.returned.len()).sum()
        };
        let wanted = others(&mut self.next.nodes).saturating_add(node.returned.len()).saturating_add(new);
        let others_of = self.next.nodes.iter_mut().filter(|other| other.name != node.name);
        let number = wanted.saturating_sub(MAX_RETURNED_OWNERS).min(new);
        returns::make_room(others_of, &self.used_records, number, self.now);
        let room = MAX_RETURNED_OWNERS.saturating_sub(others(&mut self.next.nodes));
        returns::begin_rounds(node, pods.unrecorded(), &pods.waiting(), room, self.now);
    }

    /// Says why the drain of a node failed.
    fn tell_failure(&self, node: &mut DrainedNode, judgements: &[PodJudgement]) {
        node.verdict = DrainVerdict::Failed;
        let rejected = self.world.rejected_nodes.iter().find(|rejected| rejected.node == node.name);
        let uncordoned = rejected.map(|it| truncated(&format!("the node was not cordoned: {}", it.message)));
        node.message = stayed(judgements).or(uncordoned).or(node.message.take());
    }

    /// Returns true when the stored status is that of an earlier spec.
    fn is_changed(&self) -> bool {
        let stored = self.drain.status.as_ref().and_then(|status| status.observed_generation);
        stored.is_some() && stored != self.drain.metadata.generation
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
            let unjudged = || withdrawn(&next.nodes).unwrap_or_else(|| "pods are being counted".to_owned());
            let message = if judged { summary.message } else { unjudged() };
            let verdict = if judged { summary.verdict } else { DrainVerdict::Draining };
            next.verdict = Some(begun(verdict, next.pods.gone, self.drain.spec.paused));
            next.message = Some(message);
            if let Some(message) = is_rejected {
                next.verdict = Some(DrainVerdict::Stuck);
                next.message = Some(message);
            }
            self.wake_at = sooner(self.wake_at, summary.changes_at);
            self.wake(after(self.now, LOOK_AGAIN_SECONDS));
        } else if self.drain.spec.paused {
            self.wait("it is paused");
        } else if open > 0 {
            self.wait("its nodes wait for their turn");
            self.next.verdict = Some(begun(DrainVerdict::Waiting, self.next.pods.gone, false));
        } else if next.nodes.is_empty() && !self.drain.spec.nodes.follow {
            conditions::end_without_nodes(next, self.now);
        } else if next.nodes.is_empty() {
            self.wait("no node matches its selector");
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

/// Returns the verdict of a drain, or a node, of which so many pods are gone: it has begun, although no
/// further pod was asked yet. A paused one waits.
fn begun(verdict: DrainVerdict, gone: i32, paused: bool) -> DrainVerdict {
    let moves = verdict == DrainVerdict::Waiting && gone > 0 && !paused;
    if moves { DrainVerdict::Draining } else { verdict }
}
