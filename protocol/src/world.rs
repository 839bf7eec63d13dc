//! The input of [`decide`](crate::decide) besides the Evacuation.

use chrono::{DateTime, Utc};
use evacuation_api::from_condition_time;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

/// The state around an Evacuation, as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The target.
    pub pod: PodView,
    /// The time since which the kubelet of the target's node does not report. `None` while it reports, and
    /// for an unknown node.
    pub node_silent_since: Option<DateTime<Utc>>,
    /// Every budget that selects the target.
    pub budgets: Vec<BudgetView>,
    /// True when it is the target's turn in the queue of its budget: a disruption is free, or the target is
    /// the queue's probe. Not read when no budget holds the pod.
    pub turn: bool,
    /// The end of the last outage of the API that the controller noticed.
    pub recovered_at: Option<DateTime<Utc>>,
    /// Name of the responder whose first question this process delivered, or which could not take it by its own fault.
    pub asked: Option<String>,
    /// What this process knows of an attempt that is recorded as in flight.
    pub attempt: Attempt,
}

/// The knowledge of this process about the attempt that the status records as in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// None: another process recorded the attempt, or the reply was lost.
    #[default]
    Unknown,
    /// This process recorded the attempt and has not posted it.
    Recorded,
    /// This process posted the attempt and waits for the reply.
    Posted,
}

/// The target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodView {
    /// There is no pod of that name.
    Gone,
    /// The pod of that name has another UID: the target is gone.
    Replaced,
    /// The target is there.
    Live(LivePod),
}

/// A target that is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LivePod {
    /// Its phase.
    pub phase: PodPhase,
    /// The end of its grace period while it terminates: the pod's `deletionTimestamp`.
    pub terminating_until: Option<DateTime<Utc>>,
    /// True when a container runs. Without one `self` cannot answer.
    pub running_container: bool,
    /// True when its condition Ready is True. A budget counts such a pod as healthy.
    pub ready: bool,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodPhase {
    /// Not all of its containers were started.
    Pending,
    /// Running, or unknown.
    Running,
    /// Succeeded or Failed.
    Terminal,
}

impl PodView {
    /// Returns the view of a pod that was read, or was not found, for an Evacuation of that UID.
    pub fn of(pod: Option<&Pod>, uid: &str) -> Self {
        match pod {
            None => Self::Gone,
            Some(pod) if pod.metadata.uid.as_deref() != Some(uid) => Self::Replaced,
            Some(pod) => Self::Live(LivePod::of(pod)),
        }
    }

    /// The target, when it is there.
    pub fn live(&self) -> Option<&LivePod> {
        match self {
            Self::Live(pod) => Some(pod),
            Self::Gone | Self::Replaced => None,
        }
    }
}

impl LivePod {
    /// Returns the view of a pod.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = match status.and_then(|s| s.phase.as_deref()) {
            Some("Succeeded" | "Failed") => PodPhase::Terminal,
            Some("Pending") => PodPhase::Pending,
            _ => PodPhase::Running,
        };
        let running = |all: Option<&Vec<ContainerStatus>>| {
            all.into_iter().flatten().any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
        };
        // Of a pod that has got past its initialisation only a side-car is an init container that runs.
        let running_container = running(status.and_then(|s| s.container_statuses.as_ref()))
            || (phase == PodPhase::Running
                && running(status.and_then(|s| s.init_container_statuses.as_ref())));
        let ready = status
            .and_then(|s| s.conditions.as_ref())
            .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
        let terminating_until = pod.metadata.deletion_timestamp.as_ref().map(from_condition_time);
        Self { phase, terminating_until, running_container, ready }
    }
}

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

impl World {
    /// Returns the budgets that can hold back an eviction of the target. None for a pod that the eviction API
    /// evicts whatever its budgets say: pending, terminal, terminating, or unhealthy under the one budget
    /// that lets it pass.
    pub fn holding_budgets(&self) -> &[BudgetView] {
        let Some(pod) = self.pod.live() else { return &[] };
        if pod.phase != PodPhase::Running || pod.terminating_until.is_some() {
            return &[];
        }
        match self.budgets.as_slice() {
            [one] if one.lets_pass(pod) => &[],
            budgets => budgets,
        }
    }
}
