//! Owners of a pod: a controller, a DaemonSet, or the kubelet of a static pod.

use evacuation_api::RELEASED_ANNOTATION;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};

use super::pin::pinning;

/// The annotation that the kubelet puts on the mirror of a static pod.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Returns true when the pod is the mirror of a static pod.
pub(crate) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR_ANNOTATION))
}

/// Returns true when a controller replaces the pod. The controller of a pod that was released has replaced it
/// already.
pub(crate) fn is_managed(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    controller(pod).is_some() || annotations.is_some_and(|all| all.contains_key(RELEASED_ANNOTATION))
}

/// Returns the owner that manages the pod.
pub(crate) fn controller(pod: &Pod) -> Option<&OwnerReference> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the DaemonSet that manages the pod. It may be of any API group, and of another kind if it pins
/// the pod to its node as a DaemonSet does: others run a pod on each node, too, and bring it back as
/// Kubernetes' own does.
pub(crate) fn daemon_set(pod: &Pod) -> Option<&OwnerReference> {
    controller(pod).filter(|owner| owner.kind == "DaemonSet").or_else(|| pinning(pod))
}

/// Returns true for a DaemonSet of Kubernetes' own. The API does not check what an owner reference says.
pub(crate) fn is_own_daemon_set(owner: &OwnerReference) -> bool {
    owner.kind == "DaemonSet" && owner.api_version == "apps/v1"
}
