//! Budgets that hold an eviction back, in words.

use evacuation_api::{BlockedReason, ConditionType, EvacuationStatus};

use super::{
    Block,
    message::{quote, remark},
};
use crate::pod::{BudgetState, BudgetView};

/// Maximum number of budgets that a message names.
const NAMED_BUDGETS: usize = 5;
/// Part of the message of the eviction API about a budget that needs no healthy pod. It evicts none of the
/// budget's pods.
pub const NEEDS_NONE: &str = "needs 0 healthy pods";
/// Part of the message of a budget that expects no pod. Its numbers are not told, because it has pods.
const EXPECTS_NONE: &str = "expects no pod";
/// Part of the message of a budget without a limit.
const WITHOUT_LIMIT: &str = "has neither maxUnavailable nor minAvailable";

impl BudgetView {
    /// Returns the reason why the budget holds the target, as a sentence of which a message can say more. It
    /// is the same in the condition Blocked, in the blockers of drains, and in `kubectl evacuate why`.
    pub fn cause(&self) -> String {
        let name = quote(&self.name);
        match &self.state {
            BudgetState::Counted => format!("budget {name} allows no disruption now"),
            BudgetState::Stale => format!("budget {name} was not computed since its last change"),
            BudgetState::NotComputed(failure) => {
                let said = remark([failure.as_str()]);
                format!("the disruption controller cannot compute budget {name}{said}")
            }
            BudgetState::WithoutLimit => {
                format!("budget {name} {WITHOUT_LIMIT}, and so it never allows a disruption")
            }
            BudgetState::NotCounted(limit) => format!(
                "budget {name} does not count the pod, because no controller owns it ({})",
                quote(limit)
            ),
            BudgetState::ExpectsNone => format!(
                "budget {name} {EXPECTS_NONE}, because the scale of the owner is 0, and so it allows no \
                 disruption"
            ),
            BudgetState::NeedsAll { limit, desired, expected } => format!(
                "budget {name} allows no disruption even when all of its pods are healthy ({}{desired} of \
                 {expected} {} must be healthy)",
                limit.as_ref().map(|limit| format!("{}, ", quote(limit))).unwrap_or_default(),
                if *expected == 1 { "pod" } else { "pods" },
            ),
        }
    }
}

/// Returns the block by budgets that hold an eviction. `None` without a budget.
pub(crate) fn budget_block(budgets: &[BudgetView]) -> Option<Block> {
    let names: Vec<_> = budgets.iter().map(|budget| budget.name.as_str()).collect();
    match budgets {
        [] => None,
        [one] => Some(Block::budgets(one.state.reasons().0, &names, &one.cause())),
        _ => Some(Block::budgets(BlockedReason::MultipleBudgets, &names, &several(&names))),
    }
}

/// Returns the reason why several budgets hold a pod, as a sentence.
pub(crate) fn several(names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.sort_unstable();
    let list = names.iter().take(NAMED_BUDGETS).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMED_BUDGETS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let list = quote(&list);
    format!(
        "budgets {list}{more} select the pod, and the eviction API refuses a pod with more than one budget"
    )
}

/// Returns true while a budget that needs no healthy pod holds the eviction back: after a scale-down to 0 the
/// eviction API evicts none of its pods.
///
/// A budget that was not computed can need pods, whatever its numbers are. The words of its failure are those
/// of others, and count for nothing.
pub fn needs_none(status: &EvacuationStatus) -> bool {
    let said = |words: &[&str]| {
        let blocked = status.true_condition(ConditionType::Blocked);
        blocked.is_some_and(|condition| words.iter().any(|words| condition.message.contains(words)))
    };
    match status.reason() {
        Some(BlockedReason::BudgetAllowsNone) => said(&[EXPECTS_NONE, WITHOUT_LIMIT]),
        Some(BlockedReason::BudgetExhausted | BlockedReason::MultipleBudgets) => said(&[NEEDS_NONE]),
        _ => false,
    }
}
