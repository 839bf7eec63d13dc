//! The object whose manifest a pod comes from.

use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::Resource;

use crate::cluster::{Index, ObjectKey, controller_of};

/// Returns the controller of a pod, or the controller of its ReplicaSet, or the pod itself.
pub(super) fn owner(pod: &Pod, index: &Index) -> ObjectReference {
    let Some(controller) = controller_of(pod) else {
        return pod.object_ref(&());
    };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let replica_set = (controller.kind == "ReplicaSet")
        .then(|| index.replica_set(&ObjectKey::new(namespace, &controller.name)))
        .flatten()
        .filter(|found| found.metadata.uid.as_deref() == Some(&controller.uid));
    let above = replica_set.and_then(|set| {
        let mut owners = set.metadata.owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true))
    });
    reference(namespace, above.unwrap_or(controller))
}

fn reference(namespace: &str, owner: &OwnerReference) -> ObjectReference {
    ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    }
}
