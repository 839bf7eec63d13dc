//! The one budget that holds a pod.

use chrono::{DateTime, Utc};
use evacuation_api::{DrainBlockerReason, from_condition_time};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::super::{Hold, asked::Ask, command, eviction::blocked_since, replacement, text};
use crate::{
    pod::{BudgetState, BudgetView},
    time::{after, sooner, told},
};

/// Time within which the disruption controller counts an eviction, in seconds, as a rule.
pub(super) const COUNTED_SECONDS: i64 = 15;
/// Time after which the disruption controller no longer waits for an evicted pod to terminate, and some more,
/// in seconds. Source: `DeletionTimeout` of `k8s.io/kubernetes/pkg/controller/disruption`.
const GIVEN_UP_SECONDS: i64 = 150;
/// Command that shows if the kube-controller-manager works.
const CONTROLLER_MANAGER: &str = "kubectl get lease kube-controller-manager -n kube-system";

/// The one budget that holds a pod.
pub(super) struct One<'a> {
    pub(super) ask: &'a Ask<'a>,
    pub(super) budget: &'a PodDisruptionBudget,
    pub(super) view: BudgetView,
}

impl<'a> One<'a> {
    pub(super) fn of(ask: &'a Ask<'a>, budget: &'a PodDisruptionBudget) -> Self {
        Self { ask, budget, view: BudgetView::of(budget, ask.pod.pod) }
    }

    /// Returns the hold of a pod whose responders are done. `refused` is true when a budget refused its last
    /// eviction.
    pub(super) fn hold(&self, refused: bool) -> Option<Hold> {
        match &self.view.state {
            BudgetState::NotComputed(_) => return Some(self.not_computed()),
            BudgetState::Stale => return Some(self.stale()),
            _ if self.view.disruptions_allowed > 0 => {
                let cause = format!("budget {} allows one disruption at a time", self.name());
                return refused.then(|| self.exhausted(cause));
            }
            BudgetState::WithoutLimit => return Some(self.without_limit()),
            BudgetState::NotCounted(_) => return Some(self.not_counted()),
            BudgetState::ExpectsNone => return Some(self.expects_none()),
            BudgetState::NeedsAll { expected, .. } => return Some(self.needs_all(*expected)),
            BudgetState::Counted => {}
        }
        let uncounted = self.uncounted_eviction();
        if let Some((pod, time)) = uncounted.filter(|(_, time)| after(*time, COUNTED_SECONDS) <= self.ask.now)
        {
            return Some(self.not_counted_since(pod, time));
        }
        let replacements = self.replacements();
        if !self.ask.live.ready && replacements.is_none() {
            return Some(self.unhealthy());
        }
        if i64::from(replacements.hopeful) < self.wanted() {
            if let Some(failure) = replacements.worst {
                return Some(failure.hold(self.ask, self.budget));
            }
            if replacements.missing > 0 && uncounted.is_none() {
                return Some(self.missing(replacements.missing));
            }
        }
        let cause =
            format!("{}: {}, and {} must be", self.view.cause(), self.healthy(), self.view.desired_healthy);
        let late = uncounted.map(|(_, time)| after(time, COUNTED_SECONDS));
        Some(self.exhausted(cause).changing_at(sooner(replacements.hope_ends, late)))
    }

    /// Returns the hold of a pod that is not asked before the budget has room for it.
    pub(super) fn in_line(&self) -> Hold {
        let state = &self.view.state;
        let may_have_room = matches!(state, BudgetState::Counted | BudgetState::ExpectsNone);
        if let Some(other) = self.ask.pod.asked_beside.filter(|_| may_have_room) {
            let replacements = self.replacements();
            if let Some(failure) = replacements.worst.filter(replacement::Failure::hangs) {
                return failure.hold(self.ask, self.budget);
            }
            let cause = format!(
                "budget {} lets no further pod be asked until pod {}, which was asked, is gone",
                self.name(),
                text::quote(other)
            );
            let way_out = format!(
                "nothing is needed while that pod moves, and this shows what holds it: {}",
                command::why(other, &self.ask.pod.pod.metadata)
            );
            let since = blocked_since(self.ask);
            let hold = self.hold_by(DrainBlockerReason::BudgetExhausted, since, cause, &way_out);
            return hold.changing_at(replacements.hope_ends);
        }
        self.hold(true).unwrap_or_else(|| {
            self.exhausted(format!("budget {} lets no further pod be asked now", self.name()))
        })
    }

    pub(super) fn name(&self) -> String {
        text::quote(&self.view.name)
    }

    /// Returns the number of its pods that are healthy, in words.
    fn healthy(&self) -> String {
        let current = self.view.current_healthy;
        format!("{current} of its pods {} healthy", text::is_or_are(current))
    }

    /// Returns the pods that can make room.
    fn replacements(&self) -> replacement::Replacements<'_> {
        let status = self.budget.status.as_ref();
        let expected = status.and_then(|status| status.expected_pods).unwrap_or_default();
        let itself = i32::from(!self.ask.live.ready);
        let others = expected.saturating_sub(self.view.current_healthy).saturating_sub(itself);
        replacement::sort(self.ask.pod, others, self.ask.now)
    }

    /// Returns the hold by a budget that expects so many pods that nobody creates.
    fn missing(&self, number: i32) -> Hold {
        let expected = self.budget.status.as_ref().and_then(|status| status.expected_pods);
        let (runs, starts) = if number == 1 { ("runs", "starts") } else { ("run", "start") };
        let cause = format!(
            "budget {} waits for a pod that is not there: it expects {}, and {number} of them neither {runs} nor \
             {starts}",
            self.name(),
            text::pods(usize::try_from(expected.unwrap_or_default()).unwrap_or_default())
        );
        let owner = text::owner(self.ask.pod.pod);
        let create = owner.as_ref().map_or_else(
            || "start a pod that the budget selects".to_owned(),
            |owner| {
                format!(
                    "see in the events of {owner} why it creates no pod, such as for a quota of the namespace"
                )
            },
        );
        let way_out = format!(
            "{create}; or have the pod deleted at a deadline, which the budget does not prevent: {}",
            command::delete_at_deadline(self.ask.pod)
        );
        let since = blocked_since(self.ask);
        let mut hold = self.hold_by(DrainBlockerReason::ReplacementMissing, since, cause, &way_out);
        hold.object = owner.or(hold.object);
        hold.stuck_when_it_is_seen_to_last(self.ask.now)
    }

    /// Returns the number of further pods that must become healthy before the pod may go. One that is unready
    /// itself may go as soon as the others suffice.
    fn wanted(&self) -> i64 {
        let spare = i64::from(self.ask.live.ready);
        (i64::from(self.view.desired_healthy) + spare - i64::from(self.view.current_healthy)).max(1)
    }

    /// Returns the oldest eviction that the disruption controller has not counted yet: the pod and the time.
    /// It counts one when it sees the pod terminate.
    fn uncounted_eviction(&self) -> Option<(&str, DateTime<Utc>)> {
        let evicted = self.budget.status.iter().flat_map(|status| status.disrupted_pods.iter().flatten());
        evicted.map(|(pod, time)| (pod.as_str(), from_condition_time(time))).min_by_key(|(_, time)| *time)
    }

    pub(super) fn hold_by(
        &self,
        reason: DrainBlockerReason,
        since: DateTime<Utc>,
        cause: String,
        way_out: &str,
    ) -> Hold {
        let object = format!("PodDisruptionBudget/{}", text::name(&self.budget.metadata));
        Hold::new(reason, object, since, cause, way_out)
    }

    /// Returns the hold for the reason of the budget's state.
    pub(super) fn hold_by_state(&self, way_out: &str) -> Hold {
        let (_, reason) = self.view.state.reasons();
        self.hold_by(reason, blocked_since(self.ask), self.view.cause(), way_out)
    }

    fn exhausted(&self, cause: String) -> Hold {
        let way_out = "nothing is needed, because the controller evicts the pod when the budget allows it";
        self.hold_by(DrainBlockerReason::BudgetExhausted, blocked_since(self.ask), cause, way_out)
    }

    /// Returns the hold by a budget that nobody has counted since it changed.
    fn stale(&self) -> Hold {
        let way_out = format!(
            "the kube-controller-manager computes it within seconds; if it does not, see if it works: \
             {CONTROLLER_MANAGER}"
        );
        self.hold_by_state(&way_out)
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

    /// Returns the hold by a budget that protects the pod, which is not ready.
    fn unhealthy(&self) -> Hold {
        let ready = replacement::condition(self.ask.pod.pod, "Ready");
        let since = ready
            .and_then(|condition| told(condition.last_transition_time.as_ref()))
            .unwrap_or_else(|| blocked_since(self.ask));
        let cause = format!(
            "{}the pod is not ready, and budget {} protects pods that are not ready while {} and {} must be",
            text::dead_node(self.ask.pod).map(|dead| format!("{dead}, so ")).unwrap_or_default(),
            self.name(),
            self.healthy(),
            self.view.desired_healthy
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
