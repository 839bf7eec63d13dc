//! The state of a PodDisruptionBudget that decisions depend on.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::{LivePod, PodPhase};

/// A budget that selects the target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BudgetView {
    /// Its name; it lives in the target's namespace.
    pub name: String,
    /// The number of disruptions that it allows now.
    pub disruptions_allowed: i32,
    /// The number of its healthy pods.
    pub current_healthy: i32,
    /// The number of healthy pods that it wants.
    pub desired_healthy: i32,
    /// True when it expects no pod, as after a scale-down to 0. The eviction API then allows no disruption.
    pub expects_none: bool,
    /// True when its `unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allow_unhealthy: bool,
}

impl BudgetView {
    /// Returns the view of a budget.
    pub fn of(budget: &PodDisruptionBudget) -> Self {
        let status = budget.status.clone().unwrap_or_default();
        let policy = budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref());
        Self {
            name: budget.metadata.name.clone().unwrap_or_default(),
            disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
            current_healthy: status.current_healthy.unwrap_or_default(),
            desired_healthy: status.desired_healthy.unwrap_or_default(),
            expects_none: status.expected_pods == Some(0) && status.desired_healthy == Some(0),
            always_allow_unhealthy: policy == Some("AlwaysAllow"),
        }
    }

    /// Returns true when the eviction API evicts this pod without spending a disruption of this budget, as
    /// its handler does for pods that are not ready.
    pub fn lets_pass(&self, pod: &LivePod) -> bool {
        let spare = self.desired_healthy > 0 && self.current_healthy >= self.desired_healthy;
        !pod.ready && (self.always_allow_unhealthy || spare)
    }
}

/// Returns the budgets that can hold back an eviction of the pod, of those that select it: all or none. None
/// for a pod that the eviction API evicts whatever its budgets say: pending, terminal, terminating, or
/// unhealthy under the one budget that lets it pass.
pub(crate) fn holding<'a>(pod: &LivePod, budgets: &'a [BudgetView]) -> &'a [BudgetView] {
    if pod.phase != PodPhase::Running || pod.terminating_until.is_some() {
        return &[];
    }
    match budgets {
        [one] if one.lets_pass(pod) => &[],
        budgets => budgets,
    }
}
