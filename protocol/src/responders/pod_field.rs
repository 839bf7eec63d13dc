//! Adapter to the responders of Kubernetes' own API for evictions: KEP-4563, `lifecycle.k8s.io/v1alpha1` of
//! 1.37.
//!
//! No other module knows the types of that API.

use evacuation_api::ResponderEntry;
use k8s_openapi::api::core::v1::Pod;

/// The responder that stands for the eviction API itself. Here the evictor is no responder.
const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";

/// Returns the entries of the pod's field `spec.evictionResponders`. The field has names and priorities,
/// which mean the same here. The defaults fill in the rest, and the responder watches.
pub(crate) fn eviction_responders(pod: &Pod) -> impl Iterator<Item = ResponderEntry> {
    let all = pod.spec.as_ref().and_then(|spec| spec.eviction_responders.as_ref());
    all.into_iter().flatten().filter(|responder| responder.name != EVICTOR).map(|responder| ResponderEntry {
        priority: Some(responder.priority),
        ..ResponderEntry::named(&responder.name)
    })
}
