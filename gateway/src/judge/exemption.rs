//! Calls that always pass.

use evacuation_api::Operation;
use evacuation_protocol::{LivePod, PodPhase};

use super::{Facts, Pass};
use crate::{
    call::Call,
    owner::CONTROLLER_MANAGER,
    pod::{chosen_grace, is_mirror},
};
use k8s_openapi::api::core::v1::Pod;

/// Group of the kubelets.
const NODES: &str = "system:nodes";
/// Controllers that delete the pods of what is gone already.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:pod-garbage-collector",
];

/// The parts of this project, whose calls and pods are left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trusted {
    /// Users that have asked already: the controller and this gateway.
    pub(crate) users: Vec<String>,
    /// Namespace of the project's own pods.
    pub(crate) namespace: String,
}

/// Returns the reason for which a call passes whatever the table and the pod's registration say.
pub(super) fn exemption(facts: &Facts<'_>) -> Option<Pass> {
    let (call, pod) = (facts.call, facts.pod);
    if is_exempt(call, pod, facts.trusted) {
        return Some(Pass::Exempt);
    }
    if call.namespace == facts.trusted.namespace {
        return Some(Pass::OwnNamespace);
    }
    if facts.namespace.terminating {
        return Some(Pass::NamespaceTerminating);
    }
    let live = LivePod::of(pod);
    if live.terminating_until.is_some() || live.phase == PodPhase::Terminal || is_mirror(pod) {
        return Some(Pass::Leaving);
    }
    if call.uid.is_some() && call.uid != pod.metadata.uid {
        return Some(Pass::OtherPod);
    }
    None
}

fn is_exempt(call: &Call, pod: &Pod, trusted: &Trusted) -> bool {
    let user = call.user.name.as_str();
    trusted.users.iter().any(|known| known == user)
        || call.user.is_in_group(NODES)
        || COLLECTORS.contains(&user)
        || (user == CONTROLLER_MANAGER && is_collection(call, pod))
}

/// Returns true for the calls of the garbage collector, the namespace controller and the collector of pods,
/// where all controllers share one user. Only the first two give a propagation policy, and only the third
/// deletes without a grace period.
fn is_collection(call: &Call, pod: &Pod) -> bool {
    call.propagates || is_forced(call, pod)
}

/// Returns true when the caller deletes a running pod without a grace period.
pub(crate) fn is_forced(call: &Call, pod: &Pod) -> bool {
    call.operation == Operation::Delete && chosen_grace(pod, call.grace_period_seconds) == Some(0)
}
