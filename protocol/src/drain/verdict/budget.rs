//! Evictions that PodDisruptionBudgets hold back.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, ConditionType, DrainBlockerReason, from_condition_time};
use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};

use super::{Hold, asked::Ask, command, eviction::blocked_since, replacement, text};
use crate::{
    pod::{BudgetView, controller, holding},
    requesters::{CountedDeletion, counted_deletion},
    time::{after, sooner},
};

/// Maximum number of budgets that a message names.
const NAMED_BUDGETS: usize = 5;
/// Time within which the disruption controller counts an eviction, in seconds, as a rule.
const COUNTED_SECONDS: i64 = 15;
/// Time after which the disruption controller no longer waits for an evicted pod to terminate, and some more,
/// in seconds. Source: `DeletionTimeout` of `k8s.io/kubernetes/pkg/controller/disruption`.
const GIVEN_UP_SECONDS: i64 = 150;
/// Command that shows if the kube-controller-manager works.
const CONTROLLER_MANAGER: &str = "kubectl get lease kube-controller-manager -n kube-system";
/// The way out for a pod of a Deployment.
const REPLACED_FIRST: &str = "register the responder surge.evacuation.dev/replacement for the pod, if the \
                              built-in responders are installed, and drain again; or ";

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

/// A pod that ends by itself ends the hold of a budget that never allows its eviction, as long as its node
/// works.
fn until_it_ends(ask: &Ask<'_>, hold: Hold) -> Hold {
    let policy = ask.pod.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let ends = matches!(policy, Some("Never" | "OnFailure")) && ask.pod.node_silent_since.is_none();
    if ends && hold.reason != DrainBlockerReason::UnhealthyPod { hold.until_it_ends() } else { hold }
}

fn held(ask: &Ask<'_>) -> Option<Hold> {
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
            return Some(self.stale());
        }
        if self.allowed > 0 {
            let cause = format!("budget {} allows one disruption at a time", self.name());
            return refused.then(|| self.exhausted(cause));
        }
        let uncounted = self.uncounted_eviction();
        if let Some((pod, time)) = uncounted.filter(|(_, time)| after(*time, COUNTED_SECONDS) <= self.ask.now)
        {
            return Some(self.not_counted_since(pod, time));
        }
        let expected = self.status.expected_pods.unwrap_or_default();
        if expected == 0 {
            return Some(self.of_no_pod());
        }
        if self.desired >= expected {
            return Some(self.allows_none(expected));
        }
        let replacements = replacement::sort(self.ask.pod, self.ask.now);
        if !self.ask.live.ready && replacements.is_none() {
            return Some(self.unhealthy());
        }
        if i64::from(replacements.hopeful) < self.missing()
            && let Some(failure) = replacements.worst
        {
            return Some(failure.hold(self.ask, self.budget));
        }
        let cause = format!(
            "budget {} allows no disruption now: {}, and {} must be",
            self.name(),
            self.healthy(),
            self.desired
        );
        let late = uncounted.map(|(_, time)| after(time, COUNTED_SECONDS));
        Some(self.exhausted(cause).changing_at(sooner(replacements.hope_ends, late)))
    }

    /// Returns the hold by a budget of which the disruption controller expects no pod.
    fn of_no_pod(&self) -> Hold {
        let failed = |c: &Condition| c.type_ == "DisruptionAllowed" && c.reason == "SyncFailed";
        if self.limit().is_none() {
            self.without_limit()
        } else if controller(self.ask.pod.pod).is_none() {
            self.not_counted()
        } else if self.status.conditions.iter().flatten().any(failed) {
            // The number is not that of the budget as it is now.
            self.stale()
        } else {
            self.expects_none()
        }
    }

    fn in_line(&self) -> Hold {
        let expected = self.status.expected_pods.unwrap_or_default();
        let computed = self.sync_failure().is_none() && !self.is_stale();
        if computed
            && self.limit().is_some()
            && (self.desired < expected || expected == 0)
            && let Some(other) = self.ask.pod.asked_beside
        {
            let cause = format!(
                "budget {} lets no further pod be asked until pod {}, which was asked, is gone",
                self.name(),
                text::quote(other)
            );
            let way_out = "nothing is needed, because the controller asks the pod when the budget has room";
            let since = blocked_since(self.ask);
            return self.hold_by(DrainBlockerReason::BudgetExhausted, since, cause, way_out);
        }
        self.hold(true).unwrap_or_else(|| {
            self.exhausted(format!("budget {} lets no further pod be asked now", self.name()))
        })
    }

    fn name(&self) -> String {
        text::quote(text::name(&self.budget.metadata))
    }

    /// Returns the number of its pods that are healthy, in words.
    fn healthy(&self) -> String {
        format!("{} of its pods {} healthy", self.current, text::is_or_are(self.current))
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

    /// Returns the oldest eviction that the disruption controller has not counted yet: the pod and the time.
    /// It counts one when it sees the pod terminate.
    fn uncounted_eviction(&self) -> Option<(&str, DateTime<Utc>)> {
        let evicted = self.status.disrupted_pods.iter().flatten();
        evicted.map(|(pod, time)| (pod.as_str(), from_condition_time(time))).min_by_key(|(_, time)| *time)
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
        self.uncounted(since, cause)
    }

    /// The disruption controller counts only pods with a controller, unless the limit is a number of
    /// `minAvailable`. A budget that counts no pod allows no disruption, and reports no failure.
    fn not_counted(&self) -> Hold {
        let cause = format!(
            "budget {} does not count the pod, because no controller owns it{}",
            self.name(),
            self.limit().map(|limit| format!(" ({limit})")).unwrap_or_default()
        );
        self.uncounted(blocked_since(self.ask), cause)
    }

    /// Returns the hold by a budget that nobody has counted since it changed.
    fn stale(&self) -> Hold {
        let cause = format!("budget {} was not computed since its last change", self.name());
        let way_out = format!(
            "the kube-controller-manager computes it within seconds; if it does not, see if it works: \
             {CONTROLLER_MANAGER}"
        );
        self.hold_by(DrainBlockerReason::BudgetExhausted, blocked_since(self.ask), cause, &way_out)
    }

    /// Returns the hold by a budget that nobody has counted since an eviction.
    fn not_counted_since(&self, pod: &str, time: DateTime<Utc>) -> Hold {
        let cause = format!(
            "budget {} was not counted since the eviction of pod {} at {}",
            self.name(),
            text::quote(pod),
            text::time(time)
        );
        let way_out =
            format!("see if the kube-controller-manager works, which counts it: {CONTROLLER_MANAGER}");
        let since = time.max(blocked_since(self.ask));
        let hold = self.hold_by(DrainBlockerReason::BudgetExhausted, since, cause, &way_out);
        hold.stuck_from(after(time, GIVEN_UP_SECONDS), self.ask.now)
    }

    /// Returns the hold by a budget that does not count its pods.
    fn uncounted(&self, since: DateTime<Utc>, cause: String) -> Hold {
        let metadata = &self.budget.metadata;
        let way_out = format!(
            "let the budget select only pods whose owner has the subresource scale; or use minAvailable with a \
             number; or delete the budget: {}; or have the pod deleted at a deadline, which the budget does not \
             prevent: {}",
            command::delete_budgets(&self.name(), metadata.namespace.as_deref().unwrap_or_default()),
            command::delete_at_deadline(self.ask.pod)
        );
        self.hold_by(DrainBlockerReason::BudgetNotComputed, since, cause, &way_out).stuck()
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
        let unready_goes = if self.ask.live.ready {
            String::new()
        } else {
            format!(
                "as the pod is not ready, set unhealthyPodEvictionPolicy: AlwaysAllow in the budget: {}; or ",
                command::let_unready_go(self.budget)
            )
        };
        let pod = self.ask.pod.pod;
        let replaceable = controller(pod).is_some_and(|owner| owner.kind == "ReplicaSet");
        let spec = self.budget.spec.as_ref();
        let is_number = spec.is_some_and(|spec| matches!(spec.min_available, Some(IntOrString::Int(_))));
        let way_out = format!(
            "{unready_goes}{}let the budget allow one disruption: {}{}; or have the pod deleted at a \
             deadline, which the budget does not prevent: {}",
            if replaceable { REPLACED_FIRST } else { "" },
            command::allow_one(self.budget, expected, controller(pod).is_some()),
            if is_number { "; or add a replica" } else { "" },
            command::delete_at_deadline(self.ask.pod),
        );
        self.hold_by(DrainBlockerReason::BudgetAllowsNone, blocked_since(self.ask), cause, &way_out).stuck()
    }

    /// Returns the hold by a budget that is legal and allows nothing: the disruption controller expects no
    /// pod of it.
    fn without_limit(&self) -> Hold {
        let cause = format!(
            "budget {} has neither maxUnavailable nor minAvailable, and so it never allows a disruption",
            self.name()
        );
        let way_out = format!(
            "set one of them: {}; or have the pod deleted at a deadline, which the budget does not prevent: {}",
            command::allow_one(self.budget, self.current, controller(self.ask.pod.pod).is_some()),
            command::delete_at_deadline(self.ask.pod),
        );
        self.hold_by(DrainBlockerReason::BudgetAllowsNone, blocked_since(self.ask), cause, &way_out).stuck()
    }

    /// Returns the hold by a budget whose owner is scaled to 0, and whose pods are still there. One whose
    /// pods are new looks the same until they are counted.
    fn expects_none(&self) -> Hold {
        let cause = format!(
            "budget {} expects no pod, because the scale of the owner is 0, and so it allows no disruption",
            self.name()
        );
        let way_out = format!(
            "delete the pod, which its owner no longer wants: {}; or scale the owner up",
            command::delete(self.ask.pod.pod)
        );
        let since = blocked_since(self.ask);
        let hold = self.hold_by(DrainBlockerReason::BudgetAllowsNone, since, cause, &way_out);
        hold.stuck_from(after(since, COUNTED_SECONDS), self.ask.now)
    }

    fn unhealthy(&self) -> Hold {
        let ready = replacement::condition(self.ask.pod.pod, "Ready");
        let since = ready
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map_or_else(|| blocked_since(self.ask), from_condition_time);
        let cause = format!(
            "{}the pod is not ready, and budget {} protects pods that are not ready while {} and {} must be",
            text::dead_node(self.ask.pod).map(|dead| format!("{dead}, so ")).unwrap_or_default(),
            self.name(),
            self.healthy(),
            self.desired
        );
        let broken = if self.ask.pod.node_silent_since.is_some() { "node" } else { "pod" };
        let way_out = format!(
            "repair the {broken}, or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget: {}",
            command::let_unready_go(self.budget)
        );
        self.hold_by(DrainBlockerReason::UnhealthyPod, since, cause, &way_out)
            .stuck_when_it_lasts(self.ask.now)
    }
}

#[cfg(test)]
mod tests;
