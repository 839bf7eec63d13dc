//! The state of a PodDisruptionBudget: the reason why it holds its pods.
//!
//! # Sources
//!
//! `trySync`, `failSafe` and `getExpectedPodCount` of `k8s.io/kubernetes/pkg/controller/disruption`, and
//! `checkAndDecrement` of `k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go`.

use evacuation_api::{BlockedReason, DrainBlockerReason};
use k8s_openapi::{
    api::policy::v1::PodDisruptionBudget,
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};

/// State of a budget, as far as the budget alone and the owner of a pod tell. The condition Blocked, the
/// blockers of drains and `kubectl evacuate why` take their reasons from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BudgetState {
    /// Counted: it allows a disruption now, or as soon as enough of its pods are healthy.
    Counted,
    /// Not computed since its last change. The eviction API refuses until it is.
    Stale,
    /// The disruption controller failed to compute it. Holds the words of the failure.
    NotComputed(String),
    /// Without any limit: it is legal and never allows a disruption.
    WithoutLimit,
    /// It does not count the pod, because no controller owns the pod. Holds its limit in words.
    NotCounted(String),
    /// It expects no pod, because the owner of its pods is scaled to 0.
    ExpectsNone,
    /// It allows no disruption even when all of its pods are healthy, as far as they exist.
    NeedsAll {
        /// Its limit in words.
        limit: Option<String>,
        /// The number of healthy pods that it wants.
        desired: i32,
        /// The number of pods that it expects.
        expected: i32,
    },
}

impl BudgetState {
    /// Returns the state in which a budget holds a pod that it selects. `is_owned` is true for a pod with a
    /// controller.
    ///
    /// A failure counts whatever generation it names: the disruption controller writes that of its last
    /// success, and takes a failure back with the next success.
    pub fn of(budget: &PodDisruptionBudget, is_owned: bool) -> Self {
        if let Some(failure) = sync_failure(budget) {
            return Self::NotComputed(failure.message.clone());
        }
        let Some(status) = &budget.status else { return Self::Stale };
        let generation = budget.metadata.generation.unwrap_or_default();
        if status.observed_generation.unwrap_or_default() < generation {
            return Self::Stale;
        }
        let expected = status.expected_pods.unwrap_or_default();
        let desired = status.desired_healthy.unwrap_or_default();
        match limit(budget) {
            None if expected == 0 => Self::WithoutLimit,
            Some(limit) if expected == 0 && !is_owned => Self::NotCounted(limit),
            Some(_) if expected == 0 => Self::ExpectsNone,
            limit if desired >= expected && !may_grow(budget) => Self::NeedsAll { limit, desired, expected },
            _ => Self::Counted,
        }
    }

    /// Returns the reason of the condition Blocked, and that of a drain's blocker: the same word.
    pub(crate) fn reasons(&self) -> (BlockedReason, DrainBlockerReason) {
        match self {
            Self::Counted | Self::Stale => {
                (BlockedReason::BudgetExhausted, DrainBlockerReason::BudgetExhausted)
            }
            Self::NotComputed(_) | Self::NotCounted(_) => {
                (BlockedReason::BudgetNotComputed, DrainBlockerReason::BudgetNotComputed)
            }
            Self::WithoutLimit | Self::ExpectsNone | Self::NeedsAll { .. } => {
                (BlockedReason::BudgetAllowsNone, DrainBlockerReason::BudgetAllowsNone)
            }
        }
    }

    /// Returns true when the budget refuses each eviction of a ready pod, whatever becomes of its other pods.
    /// Its numbers say nothing then: a pod that is asked stops its work for an eviction that never comes.
    pub fn never_has_room(&self) -> bool {
        matches!(self, Self::NotComputed(_) | Self::WithoutLimit | Self::NotCounted(_))
    }

    /// Returns true when the numbers in the budget's status are those of its pods as they are. The status of
    /// a budget that was not computed, or that counts no pod, has numbers, too.
    pub fn has_numbers(&self) -> bool {
        matches!(self, Self::Counted | Self::NeedsAll { .. })
    }
}

/// Returns true for a budget with a number of pods that must be healthy, of which one is not. It expects the
/// pods that exist, and their owner may create others when that one is healthy, as a StatefulSet does.
fn may_grow(budget: &PodDisruptionBudget) -> bool {
    let has_number =
        matches!(budget.spec.as_ref().and_then(|s| s.min_available.as_ref()), Some(IntOrString::Int(_)));
    has_number && budget.status.as_ref().is_some_and(|status| status.current_healthy < status.expected_pods)
}

/// Returns the condition that says why the disruption controller failed to compute a budget.
pub(crate) fn sync_failure(budget: &PodDisruptionBudget) -> Option<&Condition> {
    let failed =
        |c: &&Condition| c.type_ == "DisruptionAllowed" && c.status == "False" && c.reason == "SyncFailed";
    budget.status.as_ref()?.conditions.iter().flatten().find(failed)
}

/// Returns the limit as the spec has it: `maxUnavailable 1`.
fn limit(budget: &PodDisruptionBudget) -> Option<String> {
    let amount = |amount: &IntOrString| match amount {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(percentage) => percentage.clone(),
    };
    let spec = budget.spec.as_ref()?;
    let max = spec.max_unavailable.as_ref().map(|max| format!("maxUnavailable {}", amount(max)));
    max.or_else(|| spec.min_available.as_ref().map(|min| format!("minAvailable {}", amount(min))))
}
