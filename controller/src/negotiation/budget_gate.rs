//! Decisions that depend on the queues of the budgets.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use evacuation_protocol::{Act, Decision, World, decide};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use tokio::time::Instant;

use super::{
    evictor::{BudgetQueues, BudgetStatus, Turn, TurnEnd},
    in_flight,
};
use crate::cluster::{Change, Cluster, ObjectKey, View, WorkQueue, due, lock};

/// The queues of the budgets, and the decision that depends on them.
pub(super) struct BudgetGate {
    view: Arc<View>,
    queue: Arc<WorkQueue<ObjectKey>>,
    turns: Mutex<BudgetQueues>,
}

impl BudgetGate {
    /// Returns a gate that wakes Evacuations through `queue`.
    pub(super) fn new(cluster: &Cluster, queue: Arc<WorkQueue<ObjectKey>>) -> Self {
        Self { view: Arc::clone(&cluster.view), queue, turns: Mutex::default() }
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

    /// Records the outcome of an attempt that had its turn, and the duration of its call.
    pub(super) fn finished(&self, key: &ObjectKey, end: TurnEnd, took: Option<Duration>) {
        let woken = lock(&self.turns).finished(key, end, took, Instant::now());
        self.queue.add_all(woken);
    }

    /// Returns the number of evictions that wait for a budget.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.turns).waiting()
    }

    /// Forgets every queue.
    pub(super) fn clear(&self) {
        *lock(&self.turns) = BudgetQueues::default();
    }

    /// Decides about an Evacuation. An eviction that is due asks its budget's queue, and waits there if the
    /// budget allows none. Also returns the time at which a queue is to be asked again.
    pub(super) fn decide(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        world: World,
        now: DateTime<Utc>,
    ) -> (Decision, Option<Instant>) {
        let waiting = decide(evacuation, &world, now);
        let budget = budget_of(key, &world);
        let Some(budget) = budget.filter(|_| !starts_attempt(evacuation, &waiting)) else {
            if !in_flight(evacuation.status.as_ref()) {
                self.leave(key);
            }
            return (waiting, None);
        };
        if in_flight(evacuation.status.as_ref()) {
            return (waiting, None);
        }
        let going = decide(evacuation, &World { turn: true, ..world }, now);
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
            Turn::Go => (going, None),
            Turn::Wait(probe) => (waiting, probe),
        }
    }

    /// Takes an Evacuation out of its budget's queue.
    pub(super) fn leave(&self, key: &ObjectKey) {
        let woken = lock(&self.turns).leave(key, Instant::now());
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
