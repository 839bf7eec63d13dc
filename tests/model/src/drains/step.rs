//! One step of a world of drains.
#![allow(clippy::indexing_slicing, reason = "the numbers of a world are within its bounds")]

use evacuation_api::{DrainConditionType, DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::{DrainAct, cordon, forget_holders, plan, release};

use super::{
    DrainConfig, DrainLaw,
    objects::{Objects, at, drain, drain_name, node_name, node_of},
    state::{Act, DrainObject, DrainState, EvacuationState, NodeState, PendingAct},
};

/// Seconds until the deadline of a drain that has one.
pub(super) const DEADLINE: i64 = 60;

impl DrainState {
    /// A leader plans a drain: it writes the status, and begins the acts.
    pub(super) fn plan(&mut self, config: &DrainConfig, number: usize) {
        let Some(drain) = drain(config, self, number) else { return };
        let objects = Objects::of(config, self);
        let world = objects.world(config, self);
        let planned = plan(&drain, &world, at(self.now));
        let acts: Vec<Act> = planned.acts.iter().filter_map(act).collect();
        let deleted = drain.metadata.deletion_timestamp.is_some();
        let Some(paused) = self.drains[number].as_ref().map(|stored| stored.paused) else { return };
        self.judge_ends(config, &drain, &planned.status);
        if paused && !deleted {
            let ends = is_finished(&planned.status) && !drain.status.as_ref().is_some_and(is_finished);
            let asks = acts.iter().any(|act| matches!(act, Act::Ask(..) | Act::Join(_)));
            if ends || asks {
                self.broken.insert(DrainLaw::Paused);
            }
        }
        // The controller writes no status with the last act.
        if !acts.contains(&Act::End)
            && let Ok(status) = serde_json::to_string(&planned.status)
        {
            self.drains[number] = Some(DrainObject { status, deleted, paused });
        }
        for act in acts {
            let known = |p: &PendingAct| p.drain == number && p.act == act && !p.stale && !p.late;
            if !self.pending.iter().any(known) {
                self.pending.push(PendingAct { drain: number, act, stale: false, late: false });
            }
        }
        self.pending.sort();
        self.pending.dedup();
    }

    /// Checks each node that comes to its end by a plan: no pod is left there that was to move. The pods that
    /// a DaemonSet puts in the place of others stay.
    fn judge_ends(&mut self, config: &DrainConfig, drain: &NodeEvacuation, next: &NodeEvacuationStatus) {
        let was = drain.status.iter().flat_map(|status| &status.nodes);
        let before: Vec<_> = was.map(|node| (&node.name, node.phase)).collect();
        let moved = [DrainedNodePhase::Drained, DrainedNodePhase::Gone];
        for node in next.nodes.iter().filter(|node| moved.contains(&node.phase)) {
            let new = !before.contains(&(&node.name, node.phase));
            let mut pods = self.pods.iter().enumerate();
            let left = pods.any(|(number, pod)| {
                let here = config.pods.get(number).is_some_and(|place| node.name == node_name(*place));
                here && !pod.gone && pod.generation == 0
            });
            if new && left {
                self.broken.insert(DrainLaw::Drained);
            }
        }
    }

    /// A node is deleted, or one of its name registers. The pods run on until Kubernetes collects them.
    pub(super) fn register(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let (registration, deleted) = (state.registration, !state.deleted);
        *state = NodeState {
            deleted,
            registration: registration.saturating_add(u8::from(!deleted)),
            was_cordoned: state.was_cordoned,
            ..NodeState::default()
        };
        self.node_changed(node);
    }

    /// Kubernetes collects a pod whose node is no longer there.
    pub(super) fn collect(&mut self, pod: usize) {
        let state = &mut self.pods[pod];
        state.gone = true;
        state.evacuation = None;
        self.evacuation_changed(pod);
    }

    /// Returns true for a pod that runs although its node is no longer there.
    pub(super) fn is_lost(&self, config: &DrainConfig, pod: usize) -> bool {
        let node = config.pods.get(pod).and_then(|node| self.nodes.get(*node));
        node.is_some_and(|node| node.deleted) && !self.pods[pod].gone
    }

    /// Another process leads. What the last one began can still be carried out.
    pub(super) fn change_leader(&mut self) {
        for pending in &mut self.pending {
            pending.late = true;
        }
        self.pending.sort();
        self.pending.dedup();
    }

    /// The API carries an act out, unless its precondition fails.
    pub(super) fn carry_out(&mut self, config: &DrainConfig, place: usize) {
        let PendingAct { drain: number, act, stale, .. } = self.pending.remove(place);
        match act {
            Act::Cordon(node) if !stale => {
                let change = cordon(&node_of(node, &self.nodes[node]), &drain_name(number));
                let state = &mut self.nodes[node];
                state.cordoned = change.unschedulable.unwrap_or(state.cordoned);
                state.was_cordoned |= state.cordoned;
                state.holders = change.annotation;
                self.node_changed(node);
            }
            Act::Release(node) if !stale => self.release(number, node),
            Act::Ask(pod, generation) => self.ask(config, number, pod, generation),
            Act::Join(pod) if !stale => {
                if let Some(active) = &mut self.pods[pod].evacuation {
                    active.entries.insert(number);
                    active.recorded.insert(number);
                    self.evacuation_changed(pod);
                    self.note_asked(config, number, pod);
                }
            }
            Act::Withdraw(pod) if !stale => self.withdraw(number, pod),
            Act::End => self.drains[number] = None,
            _ => {}
        }
    }

    fn release(&mut self, number: usize, node: usize) {
        let Some(change) = release(&node_of(node, &self.nodes[node]), &drain_name(number)) else { return };
        if change.unschedulable == Some(false) {
            let holders = self.nodes[node].holders.as_deref();
            let needs =
                |other: usize| other != number && self.drains[other].is_some() && holds(holders, other);
            if self.nodes[node].by_person || (0..self.drains.len()).any(needs) {
                self.broken.insert(DrainLaw::Cordon);
            }
            self.nodes[node].cordoned = false;
        }
        self.nodes[node].holders = change.annotation;
        self.node_changed(node);
    }

    /// The server takes a question only for the pod of that UID.
    fn ask(&mut self, config: &DrainConfig, number: usize, pod: usize, generation: u8) {
        let state = &mut self.pods[pod];
        if state.gone || state.evacuation.is_some() || state.generation != generation {
            return;
        }
        let only = std::collections::BTreeSet::from([number]);
        let asked = EvacuationState { entries: only.clone(), recorded: only, ..EvacuationState::default() };
        state.evacuation = Some(asked);
        let node = config.pods.get(pod).and_then(|node| self.nodes.get(*node));
        if node.is_some_and(|node| !node.was_cordoned) {
            self.broken.insert(DrainLaw::Cordoned);
        }
        self.evacuation_changed(pod);
        self.note_asked(config, number, pod);
    }

    /// Records that a drain asks a pod, and checks the order of the pods of DaemonSets.
    fn note_asked(&mut self, config: &DrainConfig, number: usize, pod: usize) {
        let generation = self.pods[pod].generation;
        let others = (0..self.pods.len()).filter(|other| {
            config.pods.get(*other) == config.pods.get(pod) && !config.daemons.contains(other)
        });
        let too_early = others.into_iter().any(|other| !self.pods[other].gone);
        let again = self.pods[pod].asked.iter().any(|(drain, known)| *drain == number && *known < generation);
        if config.daemons.contains(&pod) && (too_early || again) {
            self.broken.insert(DrainLaw::Last);
        }
        self.pods[pod].asked.insert((number, generation));
    }

    /// The server refuses a withdrawal while an eviction is in flight: the fence.
    pub(super) fn withdraw(&mut self, number: usize, pod: usize) {
        let state = &mut self.pods[pod];
        let Some(active) = state.evacuation.as_mut().filter(|active| !active.in_flight) else { return };
        active.entries.remove(&number);
        if active.entries.is_empty() {
            let recorded = std::mem::take(&mut active.recorded);
            state.canceled_for.extend(recorded);
            state.evacuation = None;
        }
        self.evacuation_changed(pod);
    }

    /// The evictor begins an attempt, if the app accepted or a deadline was reached.
    pub(super) fn evict(&mut self, pod: usize) {
        let Some(active) = &mut self.pods[pod].evacuation else { return };
        if active.entries.is_empty() {
            self.broken.insert(DrainLaw::Withdrawal);
        }
        active.in_flight = true;
        self.evacuation_changed(pod);
    }

    /// The outcome of an attempt: the pod goes, or a budget refuses. A DaemonSet creates another pod at once.
    pub(super) fn outcome(&mut self, config: &DrainConfig, pod: usize, goes: bool) {
        let state = &mut self.pods[pod];
        if goes && config.daemons.contains(&pod) {
            state.generation = state.generation.saturating_add(1);
            state.evacuation = None;
            state.canceled_for.clear();
        } else if goes {
            state.gone = true;
            state.evacuation = None;
        } else if let Some(active) = &mut state.evacuation {
            active.in_flight = false;
        }
        self.evacuation_changed(pod);
    }

    /// The leader takes the entries back whose drain is gone.
    pub(super) fn withdraw_orphans(&mut self, pod: usize) {
        let entries = self.pods[pod].evacuation.iter().flat_map(|active| active.entries.clone());
        for number in entries.collect::<Vec<_>>() {
            if self.drains[number].is_none() {
                self.withdraw(number, pod);
            }
        }
    }

    /// The leader forgets the holders of a cordon that a person took away.
    pub(super) fn forget_holders(&mut self, node: usize) {
        if let Some(change) = forget_holders(&node_of(node, &self.nodes[node])) {
            self.nodes[node].holders = change.annotation;
            self.node_changed(node);
        }
    }

    /// The leader releases a node from the drains that are gone.
    pub(super) fn release_from_the_gone(&mut self, node: usize) {
        for number in self.gone_holders(node) {
            self.release(number, node);
        }
    }

    /// Drains that are gone and hold the node.
    pub(super) fn gone_holders(&self, node: usize) -> Vec<usize> {
        let holders = self.nodes.get(node).and_then(|node| node.holders.as_deref());
        (0..self.drains.len())
            .filter(|number| self.drains[*number].is_none() && holds(holders, *number))
            .collect()
    }

    pub(super) fn may_evict(&self, config: &DrainConfig, pod: usize) -> bool {
        let Some(active) = self.pods.get(pod).and_then(|pod| pod.evacuation.as_ref()) else { return false };
        let forced = config.deadline && self.now >= DEADLINE && active.entries.contains(&0);
        !active.in_flight && (active.accepted || forced)
    }

    /// A person cordons or uncordons a node.
    pub(super) fn person(&mut self, node: usize, cordon: bool) {
        let state = &mut self.nodes[node];
        // A cordon at which drains are still named cannot be told from theirs.
        state.by_person = cordon && state.holders.is_none();
        state.cordoned = cordon;
        state.was_cordoned |= cordon;
        self.node_changed(node);
    }

    fn node_changed(&mut self, node: usize) {
        self.outdate(|act| matches!(act, Act::Cordon(n) | Act::Release(n) if n == node));
    }

    fn evacuation_changed(&mut self, pod: usize) {
        self.outdate(|act| matches!(act, Act::Join(p) | Act::Withdraw(p) if p == pod));
    }

    fn outdate(&mut self, concerned: impl Fn(Act) -> bool) {
        for pending in self.pending.iter_mut().filter(|pending| concerned(pending.act)) {
            pending.stale = true;
        }
        self.pending.sort();
        self.pending.dedup();
    }
}

fn is_finished(status: &NodeEvacuationStatus) -> bool {
    status.is_true(DrainConditionType::Finished)
}

fn holds(holders: Option<&str>, drain: usize) -> bool {
    holders.is_some_and(|names| names.split(',').any(|name| name == drain_name(drain)))
}

fn act(act: &DrainAct<'_>) -> Option<Act> {
    let number = |name: Option<&String>| name?.get(1..)?.parse().ok();
    match act {
        DrainAct::Cordon(node) => number(node.metadata.name.as_ref()).map(Act::Cordon),
        DrainAct::Release(node) => number(node.metadata.name.as_ref()).map(Act::Release),
        DrainAct::Ask(pod, _) => {
            let (_, generation) = pod.metadata.uid.as_deref()?.split_once('-')?;
            Some(Act::Ask(number(pod.metadata.name.as_ref())?, generation.parse().ok()?))
        }
        DrainAct::Join(evacuation, _) => number(evacuation.metadata.name.as_ref()).map(Act::Join),
        DrainAct::Withdraw(evacuation) => number(evacuation.metadata.name.as_ref()).map(Act::Withdraw),
        DrainAct::Remove(_) | DrainAct::Delete => None,
        DrainAct::ReleaseFinalizer => Some(Act::End),
    }
}
