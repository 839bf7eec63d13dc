//! Registration: the responders of a pod, from its annotation, its field and EvacuationResponders.

use std::{cmp::Ordering, collections::BTreeMap};

use evacuation_api::{
    EvacuationResponder, MAX_RESPONDERS, RESPONDERS_ANNOTATION, ResponderEntry, SELF_RESPONDER,
    parse_responders,
};
use k8s_openapi::api::core::v1::Pod;

use super::selector::selects;
use crate::upstream::{eviction_responders, order_of_names};

/// The responders that are registered for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registered {
    /// The responders in the order in which they are asked: by falling priority, then by name. At most
    /// [`MAX_RESPONDERS`](evacuation_api::MAX_RESPONDERS), of distinct names.
    pub entries: Vec<ResponderEntry>,
    /// The names of the responders that are not asked, because too many are registered. In the same order.
    pub left_out: Vec<String>,
    /// The error in the pod's annotation. The annotation counts as one silent `self`, because the app meant
    /// to be asked.
    pub unreadable: Option<String>,
}

/// An entry and its claim to one of the places.
struct Candidate {
    entry: ResponderEntry,
    claim: Claim,
}

/// The claim of an entry to one of the places, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// `self`, from every source.
    Itself,
    /// Named by the pod's annotation.
    Annotation,
    /// Named by the pod's field `spec.evictionResponders`.
    Field,
    /// Named only by an EvacuationResponder.
    Selector,
}

impl Registered {
    /// Gives the places to the strongest claims, then by priority. Of two entries of one name the first
    /// counts.
    fn choose(candidates: Vec<Candidate>) -> Self {
        let mut chosen: Vec<Candidate> = Vec::new();
        for candidate in candidates {
            match chosen.iter_mut().find(|known| known.entry.name == candidate.entry.name) {
                Some(known) => {
                    // Kubernetes fixes the order of the field's responders.
                    if candidate.claim == Claim::Field {
                        known.entry.priority = candidate.entry.priority;
                    }
                    known.claim = known.claim.min(candidate.claim);
                }
                None => chosen.push(candidate),
            }
        }
        chosen.sort_by(|a, b| a.claim.cmp(&b.claim).then_with(|| order(&a.entry, &b.entry)));
        let rest = chosen.split_off(chosen.len().min(MAX_RESPONDERS));
        let sorted = |candidates: Vec<Candidate>| {
            let mut entries: Vec<_> = candidates.into_iter().map(|candidate| candidate.entry).collect();
            entries.sort_by(order);
            entries
        };
        let left_out = sorted(rest).into_iter().map(|entry| entry.name).collect();
        Self { entries: sorted(chosen), left_out, unreadable: None }
    }
}

impl From<Vec<ResponderEntry>> for Registered {
    /// Returns the entries in the order in which they are asked, as if the pod's annotation named them.
    fn from(entries: Vec<ResponderEntry>) -> Self {
        Self::choose(entries.into_iter().map(|entry| candidate(entry, Claim::Annotation)).collect())
    }
}

fn candidate(entry: ResponderEntry, claim: Claim) -> Candidate {
    let claim = if entry.name == SELF_RESPONDER { Claim::Itself } else { claim };
    Candidate { entry, claim }
}

/// Order in which responders are asked: highest priority first, then by name as Kubernetes orders them, the
/// higher domains first.
fn order(a: &ResponderEntry, b: &ResponderEntry) -> Ordering {
    b.priority().cmp(&a.priority()).then_with(|| order_of_names(&a.name, &b.name))
}

/// Returns the responders of a pod: the entries of its annotation, the EvacuationResponders of its namespace
/// that select it, and the entries of Kubernetes' own field `spec.evictionResponders`.
///
/// # Guarantees
///
/// A name counts once. The annotation comes before EvacuationResponders, and an older EvacuationResponder
/// before a younger one (of the same age, by the objects' names). The field comes last, because it has
/// the fewest settings; its priority counts, because Kubernetes' order depends on it.
///
/// If more responders are registered than there are places, `self` keeps its place. The other places go to
/// the annotation's entries, then to the field's, then to EvacuationResponders, each by priority. An
/// EvacuationResponder can therefore never displace a responder that the pod itself names.
pub fn registered_responders<'a>(
    pod: &Pod,
    objects: impl IntoIterator<Item = &'a EvacuationResponder>,
) -> Registered {
    let (annotated, unreadable) = match annotated(pod) {
        Ok(entries) => (entries, None),
        Err(problem) => (vec![ResponderEntry::named(SELF_RESPONDER)], Some(problem)),
    };
    let mut selecting: Vec<_> = objects.into_iter().filter(|object| picks(object, pod)).collect();
    selecting.sort_by_key(|object| {
        let metadata = &object.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.name.clone())
    });
    let annotated = annotated.into_iter().map(|entry| candidate(entry, Claim::Annotation));
    let selected = selecting.into_iter().map(|object| candidate(object.spec.entry(), Claim::Selector));
    let fields = eviction_responders(pod).map(|entry| candidate(entry, Claim::Field));
    let candidates = annotated.chain(selected).chain(fields).collect();
    Registered { unreadable, ..Registered::choose(candidates) }
}

/// Returns the entries of the pod's annotation, or the error in it. A pod without the annotation has none.
pub(crate) fn annotated(pod: &Pod) -> Result<Vec<ResponderEntry>, String> {
    let annotations = pod.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(RESPONDERS_ANNOTATION));
    text.map_or_else(|| Ok(Vec::new()), |text| parse_responders(text).map_err(|error| error.to_string()))
}

/// Returns true when the object is of the pod's namespace, selects the pod, and is not being deleted.
fn picks(object: &EvacuationResponder, pod: &Pod) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    object.metadata.namespace == pod.metadata.namespace
        && object.metadata.deletion_timestamp.is_none()
        && selects(&object.spec.selector, pod.metadata.labels.as_ref().unwrap_or(&NONE))
}

#[cfg(test)]
mod tests;
