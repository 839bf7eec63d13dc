//! The condition Blocked: the reasons why an eviction waits.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, Blocker, ConditionType, EvacuationStatus, Timestamp};

use super::{condition::set, message::truncated};
use crate::time::stamp;

/// The reasons of a block by budgets.
const BY_BUDGETS: [BlockedReason; 4] = [
    BlockedReason::BudgetExhausted,
    BlockedReason::BudgetAllowsNone,
    BlockedReason::BudgetNotComputed,
    BlockedReason::MultipleBudgets,
];

/// A reason why an eviction waits: the condition Blocked, and the objects that hold the eviction back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) reason: BlockedReason,
    pub(crate) message: String,
    pub(crate) blockers: Vec<Blocker>,
}

impl Block {
    /// Returns a block without a blocker. A message that is too long is cut.
    pub(crate) fn new(reason: BlockedReason, message: &str) -> Self {
        Self { reason, message: truncated(message), blockers: Vec::new() }
    }

    /// Returns a block by these budgets.
    pub(crate) fn budgets<T: AsRef<str>>(reason: BlockedReason, names: &[T], message: &str) -> Self {
        let blocker = |name: &T| Blocker {
            kind: "PodDisruptionBudget".to_owned(),
            name: name.as_ref().to_owned(),
            message: None,
        };
        Self { blockers: names.iter().map(blocker).collect(), ..Self::new(reason, message) }
    }

    /// Returns true when the status says more of the same budgets already than that they refused: the reason
    /// why they do, which the next decision would restore.
    pub(crate) fn is_known_better(&self, status: &EvacuationStatus) -> bool {
        let is_named = |known: &Blocker| self.blockers.iter().any(|named| named.name == known.name);
        let known = status.eviction.as_ref().map_or(&[][..], |eviction| &eviction.blocked_by);
        is_by_budget(status)
            && status.reason() != Some(BlockedReason::BudgetExhausted)
            && known.len() == self.blockers.len()
            && known.iter().all(is_named)
    }

    /// Returns true when the message tells the state of a budget.
    pub(crate) fn tells_budget_state(&self) -> bool {
        self.reason == BlockedReason::AwaitingTurn || BY_BUDGETS.contains(&self.reason)
    }

    /// Returns a block by that responder.
    pub(crate) fn responder(reason: BlockedReason, name: &str, message: &str) -> Self {
        let blocker = Blocker { kind: "Responder".to_owned(), name: name.to_owned(), message: None };
        Self { blockers: vec![blocker], ..Self::new(reason, message) }
    }

    /// Writes the condition, the blockers and the time under budgets.
    pub(crate) fn put(self, status: &mut EvacuationStatus, now: DateTime<Utc>) {
        let since = budgets_since(status).unwrap_or(stamp(now));
        set(status, ConditionType::Blocked, true, self.reason.as_str(), &self.message, now);
        let blocked = is_by_budget(status);
        let eviction = status.eviction.get_or_insert_default();
        eviction.blocked_by = self.blockers;
        eviction.budget_blocked_time = blocked.then_some(since);
    }
}

/// Sets the time since which budgets hold the eviction back, whatever the write says. The transition time of
/// the condition cannot tell: it stays when only the reason changes.
pub(crate) fn time_budgets(was: &EvacuationStatus, next: &mut EvacuationStatus, now: DateTime<Utc>) {
    let since = budgets_since(was).unwrap_or(stamp(now));
    let blocked = is_by_budget(next);
    if let Some(eviction) = &mut next.eviction {
        eviction.budget_blocked_time = blocked.then_some(since);
    }
}

/// Returns the recorded time since which budgets hold the eviction back, if they do.
fn budgets_since(status: &EvacuationStatus) -> Option<Timestamp> {
    status.eviction.as_ref().filter(|_| is_by_budget(status))?.budget_blocked_time
}

/// Returns true while budgets hold the eviction back.
pub(crate) fn is_by_budget(status: &EvacuationStatus) -> bool {
    status.reason().is_some_and(|reason| BY_BUDGETS.contains(&reason))
}
