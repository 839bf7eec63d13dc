//! The pod's field `spec.evictionResponders`.

use evacuation_api::ResponderEntry;
use k8s_openapi::api::core::v1::Pod;

use super::EVICTOR;

/// Returns the entries of the pod's field `spec.evictionResponders`. The field has names and priorities,
/// which mean the same here. The defaults fill in the rest, and the responder watches.
pub(crate) fn eviction_responders(pod: &Pod) -> impl Iterator<Item = ResponderEntry> {
    let all = pod.spec.as_ref().and_then(|spec| spec.eviction_responders.as_ref());
    all.into_iter().flatten().filter(|responder| responder.name != EVICTOR).map(|responder| ResponderEntry {
        priority: Some(responder.priority),
        ..ResponderEntry::named(&responder.name)
    })
}
