//! The gate before the attempts: the queues of the budgets, and the places of the evictor.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus, EvictionAction};
use evacuation_protocol::{Act, Decision, World, decide};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use tokio::time::Instant;

use super::{
    evictor::{BudgetQueues, BudgetStatus, Slots, Turn, TurnEnd},
    in_flight,
};
use crate::cluster::{Change, Cluster, ObjectKey, View, WorkQueue, due, lock};

/// The queues of the budgets and of the evictor, and the decision that depends on them.
pub(super) struct Gate {
    view: Arc<View>,
    queue: Arc<WorkQueue<ObjectKey>>,
    turns: Mutex<BudgetQueues>,
    slots: Mutex<Slots>,
}

impl Gate {
    /// Returns a gate that wakes Evacuations through `queue`.
    pub(super) fn new(cluster: &Cluster, queue: Arc<WorkQueue<ObjectKey>>) -> Self {
        Self { view: Arc::clone(&cluster.view), queue, turns: Mutex::default(), slots: Mutex::default() }
    }

    /// Records a change of a budget.
    pub(super) fn observe(&self, change: &Change<PodDisruptionBudget>) {
        let mut turns = lock(&self.turns);
        let woken = match &change.new {
            Some(budget) => turns.observe(&change.key, budget_status(budget), Instant::now()),
            None => turns.forget(&change.key),
        };
        drop(turns);
        self.queue.add_all(woken);
    }

    /// Records the outcome of an attempt that went, and the duration of its call.
    pub(super) fn finished(&self, key: &ObjectKey, end: TurnEnd, took: Option<Duration>) {
        let woken = lock(&self.turns).finished(key, end, took, Instant::now());
        self.queue.add_all(woken);
        self.queue.add_all(lock(&self.slots).leave(key));
    }

    /// Returns the number of evictions that wait for a budget.
    pub(super) fn waiting_for_budgets(&self) -> usize {
        lock(&self.turns).waiting()
    }

    /// Returns the number of evictions and deletions that wait for a place of the evictor.
    pub(super) fn waiting_for_slots(&self) -> usize {
        lock(&self.slots).waiting()
    }

    /// Forgets every queue.
    pub(super) fn clear(&self) {
        *lock(&self.turns) = BudgetQueues::default();
        *lock(&self.slots) = Slots::default();
    }

    /// Decides about an Evacuation. An attempt that is due asks its budget's queue, if a budget holds it, and
    /// then the evictor. It waits there, unrecorded, until it may go. Also returns the time at which a queue
    /// is to be asked again.
    pub(super) fn decide(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        world: World,
        now: DateTime<Utc>,
    ) -> (Decision, Option<Instant>) {
        let waiting = decide(evacuation, &world, now);
        if in_flight(evacuation.status.as_ref()) {
            return (waiting, None);
        }
        if starts_attempt(evacuation, &waiting) {
            self.leave_budget(key);
            return (self.with_slot(key, evacuation, waiting, world, now), None);
        }
        let Some(budget) = budget_of(key, &world) else {
            self.leave(key);
            return (waiting, None);
        };
        let world = World { turn: true, ..world };
        let going = decide(evacuation, &world, now);
        if !starts_attempt(evacuation, &going) {
            self.leave(key);
            return (waiting, going.wake_at.map(|time| due(time, now)));
        }
        let status = || {
            let budget = self.view.index().budget(&budget);
            budget.map_or_else(BudgetStatus::default, |budget| budget_status(&budget))
        };
        let pod = &evacuation.spec.target.pod.name;
        let (turn, woken) = lock(&self.turns).ask(&budget, status, key, pod, Instant::now());
        self.queue.add_all(woken);
        match turn {
            Turn::Go => (self.with_slot(key, evacuation, going, world, now), None),
            Turn::Wait(probe) => {
                self.leave_slot(key);
                (waiting, probe)
            }
        }
    }

    /// Returns the decision that starts an attempt if the evictor has a place for it, else one that waits.
    fn with_slot(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        going: Decision,
        world: World,
        now: DateTime<Utc>,
    ) -> Decision {
        if lock(&self.slots).ask(key, deletes(&going)) {
            return going;
        }
        decide(evacuation, &World { busy: true, ..world }, now)
    }

    /// Takes an Evacuation out of every queue.
    pub(super) fn leave(&self, key: &ObjectKey) {
        self.leave_budget(key);
        self.leave_slot(key);
    }

    fn leave_budget(&self, key: &ObjectKey) {
        let woken = lock(&self.turns).leave(key, Instant::now());
        self.queue.add_all(woken);
    }

    fn leave_slot(&self, key: &ObjectKey) {
        let woken = lock(&self.slots).leave(key);
        self.queue.add_all(woken);
    }
}

/// Returns the queue in which an eviction waits: that of the budget that holds it. The eviction API refuses a
/// pod with several budgets. Such a pod has a queue of its own, in which only probes go.
pub(super) fn budget_of(key: &ObjectKey, world: &World) -> Option<ObjectKey> {
    let names: Vec<&str> = world.holding_budgets().iter().map(|budget| budget.name.as_str()).collect();
    (!names.is_empty()).then(|| ObjectKey::new(key.namespace.clone(), names.join(",")))
}

/// Returns true if a decision records an attempt.
fn starts_attempt(evacuation: &Evacuation, decision: &Decision) -> bool {
    !in_flight(evacuation.status.as_ref())
        && decision.acts.iter().any(|act| matches!(act, Act::WriteStatus(status) if in_flight(Some(status))))
}

/// Returns true if a decision records a deletion, not an eviction.
fn deletes(decision: &Decision) -> bool {
    let action = |status: &EvacuationStatus| status.eviction.as_ref().and_then(|eviction| eviction.action);
    decision
        .acts
        .iter()
        .any(|act| matches!(act, Act::WriteStatus(status) if action(status) == Some(EvictionAction::Delete)))
}

/// Returns the status of a budget. One that was not computed for the newest spec allows nothing, as in the
/// eviction API.
fn budget_status(budget: &PodDisruptionBudget) -> BudgetStatus {
    let Some(status) = &budget.status else {
        return BudgetStatus::default();
    };
    let (current, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    let stale = status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0);
    BudgetStatus {
        disruptions_allowed: if stale { 0 } else { status.disruptions_allowed.unwrap_or(0) },
        disrupted_pods: status.disrupted_pods.iter().flatten().map(|(pod, _)| pod.clone()).collect(),
        healthy: desired > 0 && current >= desired,
    }
}
