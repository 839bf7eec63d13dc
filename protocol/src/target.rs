//! Which pods can be evacuated, and whom they want asked.

use evacuation_api::ResponderEntry;
use k8s_openapi::api::core::v1::Pod;

/// Why a pod cannot be evacuated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetProblem {
    /// The pod is the mirror of a static pod: the kubelet would only make it anew.
    #[error("pod {pod} is a mirror pod, which only its node can stop")]
    Mirror {
        /// The pod's name.
        pod: String,
    },
}

/// What a requester should know of a pod that can be evacuated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetWarning {
    /// A DaemonSet makes the pod anew on the same node.
    DaemonSet {
        /// The pod's name.
        pod: String,
    },
    /// The pod is terminating: nobody is asked.
    Terminating {
        /// The pod's name.
        pod: String,
    },
    /// The pod has ended: so will the Evacuation, at once.
    Finished {
        /// The pod's name.
        pod: String,
    },
    /// The pod's annotation cannot be read.
    UnreadableResponders {
        /// The pod's name.
        pod: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl std::fmt::Display for TargetWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DaemonSet { pod } => write!(
                f,
                "pod {pod} belongs to a DaemonSet, which makes it anew on the same node"
            ),
            Self::Terminating { pod } => write!(f, "pod {pod} is terminating: its responders are not asked"),
            Self::Finished { pod } => write!(f, "pod {pod} has ended: there is nothing to evacuate"),
            Self::UnreadableResponders { pod, problem } => {
                write!(
                    f,
                    "the annotation evacuation.dev/responders of pod {pod} cannot be read: {problem}"
                )
            }
        }
    }
}

/// Why the pod cannot be evacuated, if it cannot.
pub fn target_problem(pod: &Pod) -> Option<TargetProblem> {
    let _ = pod;
    unimplemented!()
}

/// What a requester should know of the pod.
pub fn target_warning(pod: &Pod) -> Vec<TargetWarning> {
    let _ = pod;
    unimplemented!()
}

/// The entries of the pod's annotation, or why they cannot be read. A pod without the annotation has none.
pub fn registered_responders(pod: &Pod) -> Result<Vec<ResponderEntry>, String> {
    let _ = pod;
    unimplemented!()
}
