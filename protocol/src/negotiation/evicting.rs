//! The evictor: the last in every chain.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, DeadlineAction, EvictionAction, EvictionStatus};

use super::{
    Act, Attempt, World,
    step::{Blockage, Step, TERMINATING_MARGIN_SECONDS},
};
use crate::{
    eviction::{ATTEMPT_TIMEOUT_SECONDS, is_deletion},
    pod::{BudgetState, BudgetView},
    policy::reached,
    status::{Block, budget_block, is_by_budget},
    time::{after, stamp},
};

/// Minimum time between two attempts of a pod that has its turn in the budget's queue again, in seconds.
const TURN_SPACING_SECONDS: i64 = 1;
/// Minimum time between two attempts when a budget refused the first, and no budget is seen that holds the
/// pod. In seconds.
const UNHELD_SPACING_SECONDS: i64 = 5;

/// Permission to make an attempt.
enum Permission {
    Now,
    At(DateTime<Utc>),
    /// At the pod's turn in the queue of its budget.
    InTurn(Blockage),
}

impl Step<'_> {
    /// Evicts, once every responder is done.
    pub(super) fn evict(&mut self, world: &World) -> Blockage {
        let eviction = self.next.eviction.clone().unwrap_or_default();
        if eviction.accepted {
            return self.wait_for_termination(&eviction);
        }
        if eviction.in_flight {
            self.carry_out(world, &eviction);
            return Blockage::Unchanged;
        }
        if self.is_left_to_callers() {
            return Blockage::None;
        }
        match self.permission(world, &eviction) {
            Permission::Now if world.busy => self.unless_about_eviction(),
            Permission::Now => {
                let deletes = reached(&self.policy, DeadlineAction::Delete).is_some();
                let attempt = self.next.eviction.get_or_insert_default();
                attempt.action = Some(if deletes { EvictionAction::Delete } else { EvictionAction::Evict });
                attempt.in_flight = true;
                attempt.attempts = attempt.attempts.saturating_add(1);
                attempt.last_attempt_time = Some(stamp(self.now));
                attempt.last_attempt_result = None;
                attempt.next_attempt_time = None;
                // Nothing was said to this one yet.
                attempt.message = None;
                self.unless_about_eviction()
            }
            Permission::At(time) => {
                self.wake(time);
                self.unless_about_eviction()
            }
            Permission::InTurn(blockage) => blockage,
        }
    }

    /// The API took the eviction; the pod's `deletionTimestamp` has not been seen yet.
    fn wait_for_termination(&mut self, eviction: &EvictionStatus) -> Blockage {
        let limit =
            eviction.last_attempt_time.map_or(self.now, |time| after(time.0, TERMINATING_MARGIN_SECONDS));
        if self.now < limit {
            self.wake(limit);
            return Blockage::None;
        }
        let message = "the eviction was accepted and the pod is not terminating";
        Blockage::By(Block::new(BlockedReason::Terminating, message))
    }

    /// Makes the recorded attempt if this process recorded it. Otherwise finds out its outcome.
    fn carry_out(&mut self, world: &World, eviction: &EvictionStatus) {
        let grace_period_seconds = self.policy.grace_period_seconds;
        match world.attempt {
            Attempt::Recorded if is_deletion(&self.policy, eviction) => {
                self.acts.push(Act::Delete { grace_period_seconds });
            }
            Attempt::Recorded => self.acts.push(Act::Evict { grace_period_seconds }),
            Attempt::Posted => {}
            Attempt::Unknown => {
                let known =
                    eviction.last_attempt_time.map_or(self.now, |t| after(t.0, ATTEMPT_TIMEOUT_SECONDS));
                if known <= self.now {
                    self.acts.push(Act::ResolveInFlight);
                } else {
                    self.wake(known);
                }
            }
        }
    }

    fn permission(&self, world: &World, eviction: &EvictionStatus) -> Permission {
        // Before the first attempt it is the end of the callers' time, which is over.
        let next = eviction.next_attempt_time.filter(|_| eviction.attempts > 0);
        let next = next.map(|time| time.0).filter(|time| *time > self.now);
        if reached(&self.policy, DeadlineAction::Delete).is_some() {
            // What held the evictions back before does not hold the deletion back.
            let deleted_before = is_deletion(&self.policy, eviction);
            return next.filter(|_| deleted_before).map_or(Permission::Now, Permission::At);
        }
        let by_budget = is_by_budget(&self.next);
        let holding = world.holding_budgets();
        let in_turn = world.turn && !holding.is_empty();
        if by_budget && (in_turn || holding.is_empty()) {
            // The budget has room again, or is gone. If that is a mistake the API says so again: not too
            // often.
            let floor = if in_turn { TURN_SPACING_SECONDS } else { UNHELD_SPACING_SECONDS };
            let spaced =
                eviction.last_attempt_time.map(|time| after(time.0, floor)).filter(|time| *time > self.now);
            return spaced.map_or(Permission::Now, Permission::At);
        }
        match next.filter(|_| !by_budget) {
            Some(time) => Permission::At(time),
            None if holding.is_empty() || in_turn => Permission::Now,
            None => Permission::InTurn(held_by(holding)),
        }
    }

    /// Clears a block by a responder. A block of the eviction stays until an attempt succeeds.
    fn unless_about_eviction(&self) -> Blockage {
        let rejected = self.next.reason() == Some(BlockedReason::EvictionRejected);
        if rejected || is_by_budget(&self.next) { Blockage::Unchanged } else { Blockage::None }
    }
}

/// Returns the blockage by budgets. One that allows a disruption is about to let the pod go, unless its
/// number is that of before its last change.
fn held_by(budgets: &[BudgetView]) -> Blockage {
    match budgets {
        [one] if one.disruptions_allowed > 0 && one.state != BudgetState::Stale => Blockage::Unchanged,
        budgets => budget_block(budgets).map_or(Blockage::Unchanged, Blockage::By),
    }
}
