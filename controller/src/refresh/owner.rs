//! Owner of a pod: the object that recreates it, and for which its pods count as one group.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ReplicaSet, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::core::{ObjectMeta, PartialObjectMeta};

/// ReplicaSets of a namespace by name.
pub(crate) type ReplicaSets = BTreeMap<String, Arc<PartialObjectMeta<ReplicaSet>>>;

/// Object that recreates a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner<'a> {
    /// Kind, such as `Deployment`.
    pub(super) kind: &'a str,
    /// Name.
    pub(super) name: &'a str,
    /// UID.
    pub(super) uid: &'a str,
}

/// Ownership of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned<'a> {
    /// The pod has that owner.
    By(Owner<'a>),
    /// The watch has not shown the pod's ReplicaSet yet.
    Unseen,
    /// No owner recreates the pod elsewhere. Holds the kind of its controller, if it has one.
    Nobody(Option<&'a str>),
}

/// Returns the owner of a pod. The owner of a ReplicaSet, usually a Deployment, owns the pods, so that a
/// rollout is no new owner.
///
/// ReplicaSets, StatefulSets and ReplicationControllers recreate a pod, on any node. A DaemonSet recreates it
/// on the same node, and its pods on different nodes are independent. A Job counts an evicted pod as failed,
/// and has a limit of its own. Other kinds are unknown.
pub(crate) fn owner<'a>(pod: &'a Pod, replica_sets: &'a ReplicaSets) -> Owned<'a> {
    let Some(controller) = controller(&pod.metadata) else {
        return Owned::Nobody(None);
    };
    let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, controller.kind.as_str()) {
        ("apps", "ReplicaSet") => match replica_sets.get(&controller.name) {
            Some(found) if found.metadata.uid.as_deref() == Some(&controller.uid) => {
                Owned::By(as_owner(self::controller(&found.metadata).unwrap_or(controller)))
            }
            _ => Owned::Unseen,
        },
        ("apps", "StatefulSet") | ("", "ReplicationController") => Owned::By(as_owner(controller)),
        (_, kind) => Owned::Nobody(Some(kind)),
    }
}

fn as_owner(reference: &OwnerReference) -> Owner<'_> {
    Owner { kind: &reference.kind, name: &reference.name, uid: &reference.uid }
}

fn controller(object: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = object.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(version: &str, kind: &str, name: &str, uid: &str) -> Value {
        json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}])
    }

    fn replica_sets() -> ReplicaSets {
        let of = |name: &str, uid: &str, owners: Value| {
            let metadata = json!({"name": name, "uid": uid, "ownerReferences": owners});
            let object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            (name.to_owned(), Arc::new(object))
        };
        BTreeMap::from([
            of("web-1", "r1", reference("apps/v1", "Deployment", "web", "d")),
            of("web-2", "r2", reference("apps/v1", "Deployment", "web", "d")),
            of("alone", "r3", json!([])),
        ])
    }

    #[test]
    fn a_pod_belongs_to_who_makes_it_anew_and_a_rollout_makes_no_new_owner() {
        let by = |kind, name, uid| Owned::By(Owner { kind, name, uid });
        let table = [
            (reference("apps/v1", "ReplicaSet", "web-1", "r1"), by("Deployment", "web", "d")),
            (reference("apps/v1", "ReplicaSet", "web-2", "r2"), by("Deployment", "web", "d")),
            (reference("apps/v1", "ReplicaSet", "alone", "r3"), by("ReplicaSet", "alone", "r3")),
            (reference("apps/v1", "ReplicaSet", "alone", "older"), Owned::Unseen),
            (reference("apps/v1", "ReplicaSet", "new", "r4"), Owned::Unseen),
            (reference("apps/v1", "StatefulSet", "db", "s"), by("StatefulSet", "db", "s")),
            (reference("v1", "ReplicationController", "old", "c"), by("ReplicationController", "old", "c")),
            (reference("apps/v1", "DaemonSet", "agent", "a"), Owned::Nobody(Some("DaemonSet"))),
            (reference("batch/v1", "Job", "once", "j"), Owned::Nobody(Some("Job"))),
            (reference("v1", "Node", "node-a", "n"), Owned::Nobody(Some("Node"))),
            (reference("acme.io/v1", "StatefulSet", "x", "x"), Owned::Nobody(Some("StatefulSet"))),
            (json!([]), Owned::Nobody(None)),
            (
                json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s"}]),
                Owned::Nobody(None),
            ),
        ];
        let replica_sets = replica_sets();
        for (owners, expected) in table {
            let pod = serde_json::from_value(json!({"metadata": {"ownerReferences": owners}})).unwrap();
            assert_eq!(owner(&pod, &replica_sets), expected, "{owners}");
        }
    }
}
