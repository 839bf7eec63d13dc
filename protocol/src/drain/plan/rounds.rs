//! Rounds in which the pods of a budget go: the price of a pace that takes no service down.

use std::cmp::Reverse;

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};

use crate::{drain::Surroundings, pod::BudgetState};

/// Maximum number of budgets that the plan names.
const NAMED: usize = 3;

/// The rounds of one budget.
struct Rounds<'a> {
    budget: &'a PodDisruptionBudget,
    pods: usize,
    allowed: usize,
}

impl Rounds<'_> {
    fn number(&self) -> usize {
        self.pods.div_ceil(self.allowed)
    }
}

/// Returns the budgets whose pods a drain cannot move at once, in words. Empty when there is none.
///
/// A budget that never allows a disruption has no rounds: its pods are blockers of the plan.
pub(super) fn rounds(around: &Surroundings, asked: &[&Pod]) -> String {
    let of = |(budget, pods)| {
        let allowed = usize::try_from(allowed(budget)?).ok().filter(|allowed| *allowed > 0)?;
        (pods > allowed).then_some(Rounds { budget, pods, allowed })
    };
    let mut all: Vec<Rounds<'_>> = around.selected(asked).filter_map(of).collect();
    all.sort_by_key(|rounds| {
        let metadata = &rounds.budget.metadata;
        (Reverse(rounds.number()), metadata.namespace.clone(), metadata.name.clone())
    });
    let statement = |rounds: &Rounds<'_>| {
        let metadata = &rounds.budget.metadata;
        format!(
            "; budget {}/{} allows {} at a time, so its {} pods go in {} rounds",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            rounds.allowed,
            rounds.pods,
            rounds.number(),
        )
    };
    let named: String = all.iter().take(NAMED).map(statement).collect();
    match all.len().saturating_sub(NAMED) {
        0 => named,
        1 => format!("{named}; and 1 more budget"),
        more => format!("{named}; and {more} more budgets"),
    }
}

/// Returns the number of disruptions that a budget allows when all of its pods are healthy. `None` for one
/// that was not computed.
fn allowed(budget: &PodDisruptionBudget) -> Option<i32> {
    if !BudgetState::of(budget, true).has_numbers() {
        return None;
    }
    let status = budget.status.as_ref()?;
    Some(status.expected_pods?.saturating_sub(status.desired_healthy?))
}
