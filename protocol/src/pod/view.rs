//! The state of a pod that decisions depend on.

use chrono::{DateTime, Utc};
use evacuation_api::from_condition_time;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

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
