//! Who is asked for a pod: what the pod says, and what others say of it.

use std::collections::{BTreeMap, HashSet};

use evacuation_api::{
    EvacuationResponder, MAX_RESPONDERS, RESPONDERS_ANNOTATION, ResponderEntry, SELF_RESPONDER,
    parse_responders,
};
use k8s_openapi::api::core::v1::Pod;

use crate::{selector::selects, upstream::eviction_responders};

/// Who is asked for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registered {
    /// In the order in which they are asked: highest priority first, those of the same priority by name. At most
    /// [`MAX_RESPONDERS`](evacuation_api::MAX_RESPONDERS), of distinct names.
    pub entries: Vec<ResponderEntry>,
    /// The names of those that are not asked because there are too many, in that order.
    pub left_out: Vec<String>,
    /// Why the pod's annotation cannot be read, if it cannot. It counts as one `self` that stays silent: the app meant to be
    /// asked.
    pub unreadable: Option<String>,
}

impl From<Vec<ResponderEntry>> for Registered {
    /// These entries, put in order. Of two of one name the first counts.
    fn from(entries: Vec<ResponderEntry>) -> Self {
        let mut names = HashSet::new();
        let mut entries: Vec<_> =
            entries.into_iter().filter(|entry| names.insert(entry.name.clone())).collect();
        entries.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.name.cmp(&b.name)));
        let rest = entries.split_off(entries.len().min(MAX_RESPONDERS));
        Self { entries, left_out: rest.into_iter().map(|entry| entry.name).collect(), unreadable: None }
    }
}

/// Who is asked for a pod: the entries of its annotation, the EvacuationResponders of its namespace that select it, and those
/// of Kubernetes' own field `spec.evictionResponders`.
///
/// # Guarantees
///
/// A name counts once: the annotation comes before EvacuationResponders, the older of these before the younger (of the same
/// age by the objects' names), and the field comes last, for it says least.
pub fn registered_responders<'a>(
    pod: &Pod,
    objects: impl IntoIterator<Item = &'a EvacuationResponder>,
) -> Registered {
    let (mut all, unreadable) = match annotated(pod) {
        Ok(entries) => (entries, None),
        Err(problem) => (vec![ResponderEntry::named(SELF_RESPONDER)], Some(problem)),
    };
    let mut selecting: Vec<_> = objects.into_iter().filter(|object| picks(object, pod)).collect();
    selecting.sort_by_key(|object| {
        let metadata = &object.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.name.clone())
    });
    all.extend(selecting.into_iter().map(|object| object.spec.entry()));
    all.extend(eviction_responders(pod));
    Registered { unreadable, ..Registered::from(all) }
}

/// The entries of the pod's annotation, or why they cannot be read. A pod without the annotation has none.
pub(crate) fn annotated(pod: &Pod) -> Result<Vec<ResponderEntry>, String> {
    let annotations = pod.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(RESPONDERS_ANNOTATION));
    text.map_or_else(|| Ok(Vec::new()), |text| parse_responders(text).map_err(|error| error.to_string()))
}

/// Whether an object is of the pod's namespace, stays, and selects the pod.
fn picks(object: &EvacuationResponder, pod: &Pod) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    object.metadata.namespace == pod.metadata.namespace
        && object.metadata.deletion_timestamp.is_none()
        && selects(&object.spec.selector, pod.metadata.labels.as_ref().unwrap_or(&NONE))
}

#[cfg(test)]
mod tests;
