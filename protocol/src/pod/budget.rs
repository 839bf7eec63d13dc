//! A PodDisruptionBudget, reduced to the fields that decisions depend on.

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};

use super::{BudgetState, LivePod, PodPhase, controller};

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
    /// True when its `unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allow_unhealthy: bool,
    /// The state in which it holds the target.
    pub state: BudgetState,
}

impl BudgetView {
    /// Returns the view of a budget that selects the pod.
    pub fn of(budget: &PodDisruptionBudget, pod: &Pod) -> Self {
        let status = budget.status.clone().unwrap_or_default();
        let policy = budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref());
        Self {
            name: budget.metadata.name.clone().unwrap_or_default(),
            disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
            current_healthy: status.current_healthy.unwrap_or_default(),
            desired_healthy: status.desired_healthy.unwrap_or_default(),
            always_allow_unhealthy: policy == Some("AlwaysAllow"),
            state: BudgetState::of(budget, controller(pod).is_some()),
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
