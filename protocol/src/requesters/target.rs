//! Checks of the target at creation: pods that cannot be evacuated, and warnings.

use k8s_openapi::api::core::v1::Pod;

use crate::{
    pod::{LivePod, PodPhase, daemon_set, is_mirror},
    responders::annotated,
};

/// A reason why a pod cannot be evacuated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetProblem {
    /// The pod is the mirror of a static pod: the kubelet would only recreate it.
    #[error("pod {pod} is a mirror pod, which only its node can stop")]
    Mirror {
        /// The pod's name.
        pod: String,
    },
}

/// A warning to a requester about a pod that can be evacuated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetWarning {
    /// A DaemonSet recreates the pod on the same node.
    DaemonSet {
        /// The pod's name.
        pod: String,
    },
    /// The pod is terminating: no responder is asked.
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
        /// The error.
        problem: String,
    },
}

impl std::fmt::Display for TargetWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DaemonSet { pod } => {
                write!(f, "pod {pod} belongs to a DaemonSet, which creates it again on the same node")
            }
            Self::Terminating { pod } => write!(f, "pod {pod} is terminating: its responders are not asked"),
            Self::Finished { pod } => write!(f, "pod {pod} has ended: there is nothing to evacuate"),
            Self::UnreadableResponders { pod, problem } => {
                write!(f, "the annotation evacuation.dev/responders of pod {pod} cannot be read: {problem}")
            }
        }
    }
}

/// Returns the reason why the pod cannot be evacuated, if there is one.
pub fn target_problem(pod: &Pod) -> Option<TargetProblem> {
    is_mirror(pod).then(|| TargetProblem::Mirror { pod: name(pod) })
}

/// Returns the warnings to a requester about the pod.
pub fn target_warning(pod: &Pod) -> Vec<TargetWarning> {
    let live = LivePod::of(pod);
    let mut warnings = Vec::new();
    if daemon_set(pod).is_some() {
        warnings.push(TargetWarning::DaemonSet { pod: name(pod) });
    }
    if live.phase == PodPhase::Terminal {
        warnings.push(TargetWarning::Finished { pod: name(pod) });
    } else if live.terminating_until.is_some() {
        warnings.push(TargetWarning::Terminating { pod: name(pod) });
    } else if let Err(problem) = annotated(pod) {
        warnings.push(TargetWarning::UnreadableResponders { pod: name(pod), problem });
    }
    warnings
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(metadata: &Value, phase: &str) -> Pod {
        let mut metadata = metadata.clone();
        metadata["name"] = json!("p");
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn a_mirror_pod_cannot_be_evacuated() {
        let mirror = pod(&json!({"annotations": {"kubernetes.io/config.mirror": "x"}}), "Running");
        assert_eq!(target_problem(&mirror), Some(TargetProblem::Mirror { pod: "p".to_owned() }));
        assert_eq!(target_problem(&pod(&json!({}), "Running")), None);
    }

    #[test]
    fn a_requester_is_warned_of_what_it_may_not_expect() {
        let owner = |kind: &str, controller: bool| {
            json!({"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "1", "controller": controller}
            ]})
        };
        let annotation = |text: &str| json!({"annotations": {"evacuation.dev/responders": text}});
        let p = || "p".to_owned();
        let table = [
            (json!({}), "Running", vec![]),
            (owner("DaemonSet", true), "Running", vec![TargetWarning::DaemonSet { pod: p() }]),
            (owner("DaemonSet", false), "Running", vec![]),
            (owner("ReplicaSet", true), "Running", vec![]),
            (json!({}), "Succeeded", vec![TargetWarning::Finished { pod: p() }]),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                "Running",
                vec![TargetWarning::Terminating { pod: p() }],
            ),
            (annotation(r#"[{"name":"self"}]"#), "Running", vec![]),
            (
                annotation("[1]"),
                "Running",
                vec![TargetWarning::UnreadableResponders {
                    pod: p(),
                    problem: "[0]: must be an object".to_owned(),
                }],
            ),
        ];
        for (metadata, phase, expected) in table {
            assert_eq!(target_warning(&pod(&metadata, phase)), expected, "{metadata} {phase}");
        }
    }
}
