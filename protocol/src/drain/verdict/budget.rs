//! Evictions that PodDisruptionBudgets hold back.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, ConditionType, DrainBlockerReason, from_condition_time};
use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    apimachinery::pkg::apis::meta::v1::Condition,
};

use super::{Hold, asked::Ask, eviction::blocked_since, replacement, text};
use crate::pod::{BudgetView, controller, holding};

/// Maximum number of budgets that a message names.
const NAMED_BUDGETS: usize = 5;
/// The ways out for a budget that does not count its pods.
const COUNTED_WAY_OUT: &str = "let the budget select only pods whose owner has the subresource scale; or use \
                               minAvailable with a number; or delete the budget";

/// Returns the hold by the budgets of the pod.
pub(super) fn hold(ask: &Ask<'_>) -> Option<Hold> {
    let views: Vec<_> = ask.pod.budgets.iter().map(|budget| BudgetView::of(budget)).collect();
    let refused =
        matches!(ask.status.reason(), Some(BlockedReason::BudgetExhausted | BlockedReason::MultipleBudgets));
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
    let list = names.iter().take(NAMED_BUDGETS).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMED_BUDGETS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let cause = format!(
        "budgets {}{more} select the pod, and the eviction API refuses a pod with more than one budget",
        text::quote(&list)
    );
    let way_out =
        "change the selector of all budgets but one, so that one selects the pod, or delete the others";
    let object = format!("PodDisruptionBudget/{first}");
    Hold::new(DrainBlockerReason::MultipleBudgets, object, blocked_since(ask), cause, way_out).stuck()
}

/// The one budget that holds a pod.
struct One<'a> {
    ask: &'a Ask<'a>,
    budget: &'a PodDisruptionBudget,
    status: PodDisruptionBudgetStatus,
    allowed: i32,
    current: i32,
    desired: i32,
}

impl<'a> One<'a> {
    fn of(ask: &'a Ask<'a>, budget: &'a PodDisruptionBudget) -> Self {
        let status = budget.status.clone().unwrap_or_default();
        let (allowed, current) = (status.disruptions_allowed, status.current_healthy);
        Self {
            ask,
            budget,
            allowed: allowed.unwrap_or_default(),
            current: current.unwrap_or_default(),
            desired: status.desired_healthy.unwrap_or_default(),
            status,
        }
    }

    fn hold(&self, refused: bool) -> Option<Hold> {
        if let Some(failed) = self.sync_failure() {
            return Some(self.not_computed(failed));
        }
        if self.is_stale() {
            let cause = format!("budget {} was not computed since its last change", self.name());
            return Some(self.exhausted(cause));
        }
        if self.allowed > 0 {
            let cause = format!("budget {} allows one disruption at a time", self.name());
            return refused.then(|| self.exhausted(cause));
        }
        let expected = self.status.expected_pods.unwrap_or_default();
        if expected == 0 && controller(self.ask.pod.pod).is_none() {
            return Some(self.not_counted());
        }
        if expected > 0 && self.desired >= expected {
            return Some(self.allows_none(expected));
        }
        let replacements = replacement::sort(self.ask.pod);
        if !self.ask.live.ready && replacements.is_none() {
            return Some(self.unhealthy());
        }
        if i64::from(replacements.hopeful) < self.missing()
            && let Some(failure) = replacements.worst
        {
            let passes = !self.ask.live.ready;
            return Some(failure.hold(&self.name(), passes, self.ask.now));
        }
        let cause = format!(
            "budget {} allows no disruption now: {} of its pods are healthy, and {} must be",
            self.name(),
            self.current,
            self.desired
        );
        Some(self.exhausted(cause))
    }

    fn name(&self) -> String {
        text::quote(text::name(&self.budget.metadata))
    }

    /// Returns the number of further pods that must become healthy before the pod may go. One that is unready
    /// itself may go as soon as the others suffice.
    fn missing(&self) -> i64 {
        let spare = i64::from(self.ask.live.ready);
        (i64::from(self.desired) + spare - i64::from(self.current)).max(1)
    }

    fn generation(&self) -> i64 {
        self.budget.metadata.generation.unwrap_or_default()
    }

    /// Returns true when the budget changed since the disruption controller looked. The eviction API refuses
    /// until it has looked again.
    fn is_stale(&self) -> bool {
        self.status.observed_generation.unwrap_or_default() < self.generation()
    }

    /// Returns the condition that says why the budget as it is now cannot be computed.
    fn sync_failure(&self) -> Option<&Condition> {
        let failed = |c: &&Condition| {
            let current = c.observed_generation.is_none_or(|seen| seen >= self.generation());
            c.type_ == "DisruptionAllowed" && c.status == "False" && c.reason == "SyncFailed" && current
        };
        self.status.conditions.iter().flatten().find(failed)
    }

    fn hold_by(
        &self,
        reason: DrainBlockerReason,
        since: DateTime<Utc>,
        cause: String,
        way_out: &str,
    ) -> Hold {
        let object = format!("PodDisruptionBudget/{}", text::name(&self.budget.metadata));
        Hold::new(reason, object, since, cause, way_out)
    }

    fn exhausted(&self, cause: String) -> Hold {
        let way_out = "nothing is needed, because the controller evicts the pod when the budget allows it";
        self.hold_by(DrainBlockerReason::BudgetExhausted, blocked_since(self.ask), cause, way_out)
    }

    fn not_computed(&self, failed: &Condition) -> Hold {
        let cause = format!(
            "the disruption controller cannot compute budget {}{}",
            self.name(),
            text::remark([failed.message.as_str()])
        );
        let since = from_condition_time(&failed.last_transition_time).max(blocked_since(self.ask));
        self.hold_by(DrainBlockerReason::BudgetNotComputed, since, cause, COUNTED_WAY_OUT).stuck()
    }

    /// The disruption controller counts only pods with a controller, unless the limit is a number of
    /// `minAvailable`. A budget that counts no pod allows no disruption, and reports no failure.
    fn not_counted(&self) -> Hold {
        let cause = format!(
            "budget {} does not count the pod, because no controller owns it{}",
            self.name(),
            self.limit().map(|limit| format!(" ({limit})")).unwrap_or_default()
        );
        let since = blocked_since(self.ask);
        self.hold_by(DrainBlockerReason::BudgetNotComputed, since, cause, COUNTED_WAY_OUT).stuck()
    }

    /// Returns the limit as the spec has it.
    fn limit(&self) -> Option<String> {
        let spec = self.budget.spec.as_ref()?;
        let max = spec.max_unavailable.as_ref().map(|max| format!("maxUnavailable {}", text::amount(max)));
        max.or_else(|| spec.min_available.as_ref().map(|min| format!("minAvailable {}", text::amount(min))))
    }

    fn allows_none(&self, expected: i32) -> Hold {
        let cause = format!(
            "budget {} allows no disruption even when all of its pods are healthy ({}{} of {} must be \
             healthy)",
            self.name(),
            self.limit().map(|limit| format!("{limit}, ")).unwrap_or_default(),
            self.desired,
            text::pods(usize::try_from(expected).unwrap_or_default()),
        );
        let unhealthy =
            "; or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget, as the pod is not ready";
        let way_out = format!(
            "let the budget allow one disruption, add a replica where minAvailable is a number, or set \
             spec.requester.deadlineSeconds with atDeadline: Delete{}",
            if self.ask.live.ready { "" } else { unhealthy }
        );
        self.hold_by(DrainBlockerReason::BudgetAllowsNone, blocked_since(self.ask), cause, &way_out).stuck()
    }

    fn unhealthy(&self) -> Hold {
        let ready = replacement::condition(self.ask.pod.pod, "Ready");
        let since = ready
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map_or_else(|| blocked_since(self.ask), from_condition_time);
        let cause = format!(
            "the pod is not ready, and budget {} protects pods that are not ready while {} of its pods are \
             healthy and {} must be",
            self.name(),
            self.current,
            self.desired
        );
        let way_out = "repair the pod, or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget";
        self.hold_by(DrainBlockerReason::UnhealthyPod, since, cause, way_out)
            .stuck_when_it_lasts(self.ask.now)
    }
}

#[cfg(test)]
mod tests;
