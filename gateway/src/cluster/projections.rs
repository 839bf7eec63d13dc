//! The parts of objects that the caches keep.
//!
//! The authors of the objects decide how often a part repeats. So each part that can repeat is dropped, or
//! has a bound.

use evacuation_api::{Evacuation, EvacuationResponder};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::{ObjectMeta, PartialObjectMeta};
use machinery_watch::Projection;

/// The part of a pod, an Evacuation, an EvacuationResponder, a namespace or an owner that the gateway reads.
///
/// Nothing of it is written back: the gateway reads an Evacuation whole before it changes it.
pub(super) enum Kept {}

impl Projection<Pod> for Kept {
    fn project(pod: &mut Pod) {
        crate::pod::prune(pod);
    }
}

impl Projection<Evacuation> for Kept {
    /// Keeps the entries, the answers and the conditions: the server limits them.
    fn project(evacuation: &mut Evacuation) {
        evacuation.metadata = identity(std::mem::take(&mut evacuation.metadata));
        evacuation.shrink_to_fit();
    }
}

impl Projection<EvacuationResponder> for Kept {
    /// The index packs the selector.
    fn project(responder: &mut EvacuationResponder) {
        responder.metadata = identity(std::mem::take(&mut responder.metadata));
    }
}

impl Projection<PartialObjectMeta<Namespace>> for Kept {
    /// Only administrators write the labels of a namespace.
    fn project(namespace: &mut PartialObjectMeta<Namespace>) {
        let labels = namespace.metadata.labels.take();
        namespace.metadata = ObjectMeta { labels, ..identity(std::mem::take(&mut namespace.metadata)) };
    }
}

/// The part of an owner by which a change of it is noticed.
pub(crate) enum Identity {}

impl<K> Projection<PartialObjectMeta<K>> for Identity {
    fn project(owner: &mut PartialObjectMeta<K>) {
        owner.metadata = identity(std::mem::take(&mut owner.metadata));
    }
}

/// The fields of metadata that name an object, its state, and its beginning and end.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}
