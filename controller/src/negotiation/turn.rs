//! Deciding, with the queues of the budgets in mind.

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use evacuation_protocol::{Act, Decision, World, decide};
use tokio::time::Instant;

use super::in_flight;
use crate::{
    ObjectKey,
    clock::due,
    controller::{Controller, budget_status, lock},
    evictor::{BudgetStatus, Turn},
};

impl Controller {
    /// What to do. An eviction that would go if it were its turn asks for it, and waits in its budget's queue if it is not.
    /// Also returns when a queue is to be asked again.
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
                self.leave_queue(key);
            }
            return (waiting, None);
        };
        if in_flight(evacuation.status.as_ref()) {
            return (waiting, None);
        }
        let going = decide(evacuation, &World { turn: true, ..world }, now);
        if !starts_attempt(evacuation, &going) {
            self.leave_queue(key);
            return (waiting, going.wake_at.map(|time| due(time, now)));
        }
        let status = || {
            let budget = lock(&self.index).budget(&budget);
            budget.map_or_else(BudgetStatus::default, |budget| budget_status(&budget))
        };
        let pod = &evacuation.spec.target.pod.name;
        let (turn, woken) = lock(&self.turns).ask(&budget, status, key, pod, Instant::now());
        self.wake(woken);
        match turn {
            Turn::Go => (going, None),
            Turn::Wait(probe) => (waiting, probe),
        }
    }

    /// Takes an Evacuation out of its budget's queue.
    pub(super) fn leave_queue(&self, key: &ObjectKey) {
        let woken = lock(&self.turns).leave(key, Instant::now());
        self.wake(woken);
    }
}

/// The queue in which an eviction waits: that of the budget that holds it. Of several budgets, which the eviction API refuses
/// altogether, a queue of their own, in which nothing but probes ever goes.
pub(super) fn budget_of(key: &ObjectKey, world: &World) -> Option<ObjectKey> {
    let names: Vec<&str> = world.holding_budgets().iter().map(|budget| budget.name.as_str()).collect();
    (!names.is_empty()).then(|| ObjectKey::new(key.namespace.clone(), names.join(",")))
}

/// Whether a decision records an attempt.
fn starts_attempt(evacuation: &Evacuation, decision: &Decision) -> bool {
    !in_flight(evacuation.status.as_ref())
        && decision.acts.iter().any(|act| matches!(act, Act::WriteStatus(status) if in_flight(Some(status))))
}
