//! What Kubernetes' own API for evictions says of a pod's responders: KEP-4563, `lifecycle.k8s.io/v1alpha1` of 1.37.
//!
//! The one place that knows its types.

use evacuation_api::ResponderEntry;
use k8s_openapi::api::core::v1::Pod;

/// The responder that stands for the eviction API itself. Here the evictor is no responder.
const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";

/// The entries of the pod's field `spec.evictionResponders`. It says names and priorities, which mean the same here; everything
/// else is left to the defaults, and the responder watches.
pub(crate) fn eviction_responders(pod: &Pod) -> impl Iterator<Item = ResponderEntry> {
    let all = pod.spec.as_ref().and_then(|spec| spec.eviction_responders.as_ref());
    all.into_iter().flatten().filter(|responder| responder.name != EVICTOR).map(|responder| ResponderEntry {
        priority: Some(responder.priority),
        ..ResponderEntry::named(&responder.name)
    })
}
