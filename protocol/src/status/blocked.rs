//! The condition Blocked: the reasons why an eviction waits.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, Blocker, ConditionType, EvacuationStatus, Timestamp};

use super::{condition::set, message::truncated};
use crate::{pod::BudgetView, time::stamp};

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

/// Part of the message of a budget that needs no healthy pod. The eviction API says it with these words, too.
pub const NEEDS_NONE: &str = "needs 0 healthy pods";

/// Returns the message of a budget that allows no disruption.
pub(crate) fn allows_none(budget: &BudgetView) -> String {
    let needs = if budget.expects_none { format!(": it {NEEDS_NONE}") } else { String::new() };
    format!("budget {} allows no disruption{needs}", budget.name)
}

/// Returns true while a budget that needs no healthy pod holds the eviction back: after a scale-down to 0 the
/// eviction API evicts none of its pods.
pub fn needs_none(status: &EvacuationStatus) -> bool {
    let blocked = status.true_condition(ConditionType::Blocked);
    is_by_budget(status) && blocked.is_some_and(|condition| condition.message.contains(NEEDS_NONE))
}

/// Returns true while a budget holds the eviction back.
fn is_by_budget(status: &EvacuationStatus) -> bool {
    let reason = status.reason::<BlockedReason>();
    matches!(reason, Some(BlockedReason::BudgetExhausted | BlockedReason::MultipleBudgets))
}
