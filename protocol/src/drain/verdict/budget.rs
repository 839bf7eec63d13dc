//! Evictions that PodDisruptionBudgets hold back.

mod never;
mod one;

use evacuation_api::{ConditionType, DrainBlockerReason};

use self::one::One;
use super::{Hold, asked::Ask, command, eviction::blocked_since, text};
use crate::{
    pod::{BudgetView, holding},
    requesters::{CountedDeletion, counted_deletion},
    status::{is_by_budget, several},
};

/// Maximum number of budgets that the way out names.
const NAMED_BUDGETS: usize = 5;

/// Returns the hold by the budgets of the pod.
pub(super) fn hold(ask: &Ask<'_>) -> Option<Hold> {
    held(ask).map(|hold| match counted_deletion(ask.evacuation) {
        Some(deletion) => until_it_passes(ask, deletion, hold),
        None => until_it_ends(ask, hold),
    })
}

/// A deletion that counts ends the hold of every budget, when its patience is over.
fn until_it_passes(ask: &Ask<'_>, deletion: CountedDeletion<'_>, hold: Hold) -> Hold {
    let metadata = &ask.pod.pod.metadata;
    let way_out = format!(
        "the deletion by {} counts as an eviction, and passes with its first try from {} on; before that, let the \
         budget allow a disruption; or delete the pod, which no budget prevents: {}; or let no deletion of the \
         namespace count: {}",
        text::quote(&deletion.entry.owner),
        text::time(deletion.passes_at),
        command::delete(ask.pod.pod),
        command::stop_counting(metadata.namespace.as_deref().unwrap_or_default()),
    );
    hold.until_it_passes(deletion.passes_at, way_out, ask.now)
}

/// Returns the hold by the budgets of a pod that is not asked before they have room for it.
pub(super) fn in_line(ask: &Ask<'_>) -> Hold {
    let hold = match ask.pod.budgets.as_slice() {
        [] => unseen(ask),
        [one] => One::of(ask, one).in_line(),
        _ => multiple(ask),
    };
    until_it_ends(ask, hold)
}

/// A pod that ends by itself ends the hold of a budget that never allows its eviction. One that is not ready
/// may hang.
fn until_it_ends(ask: &Ask<'_>, hold: Hold) -> Hold {
    if hold.reason == DrainBlockerReason::UnhealthyPod { hold } else { hold.until_it_ends(ask.pod) }
}

fn held(ask: &Ask<'_>) -> Option<Hold> {
    let views: Vec<_> = ask.pod.budgets.iter().map(|budget| BudgetView::of(budget, ask.pod.pod)).collect();
    let refused = is_by_budget(ask.status);
    match (holding(&ask.live, &views), ask.pod.budgets.as_slice()) {
        ([], _) => refused.then(|| unseen(ask)),
        (_, [one]) => One::of(ask, one).hold(refused),
        _ => Some(multiple(ask)),
    }
}

/// The API named a budget that is not seen, or that lets the pod pass by now.
fn unseen(ask: &Ask<'_>) -> Hold {
    let message =
        ask.status.true_condition(ConditionType::Blocked).map(|condition| condition.message.as_str());
    let blamed = ask.status.eviction.iter().flat_map(|eviction| &eviction.blocked_by);
    let object = blamed.map(|b| format!("{}/{}", b.kind, b.name)).next().unwrap_or_else(|| ask.object());
    let cause = format!("a budget refused the last eviction{}", text::remark(message));
    let way_out = "nothing is needed, because the controller retries";
    Hold::new(DrainBlockerReason::BudgetExhausted, object, blocked_since(ask), cause, way_out)
}

fn multiple(ask: &Ask<'_>) -> Hold {
    let mut names: Vec<_> = ask.pod.budgets.iter().map(|budget| text::name(&budget.metadata)).collect();
    names.sort_unstable();
    let first = names.first().copied().unwrap_or_default();
    let cause = several(&names);
    let others = names.iter().skip(1).take(NAMED_BUDGETS).copied().collect::<Vec<_>>().join(" ");
    let pod = ask.pod.pod;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let way_out = format!(
        "change the selectors, so that one budget selects the pod; or keep one budget and delete the others, \
         such as: {}; or have the pod deleted at a deadline, which budgets do not prevent: {}",
        command::delete_budgets(&text::quote(&others), namespace),
        command::delete_at_deadline(ask.pod)
    );
    let object = format!("PodDisruptionBudget/{first}");
    Hold::new(DrainBlockerReason::MultipleBudgets, object, blocked_since(ask), cause, way_out).stuck()
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
