//! Namespaces and ReplicaSets in the index: their metadata only, and of it what refreshing needs.

use std::sync::Arc;

use evacuation_protocol::project_metadata;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Namespace};
use kube::core::{ObjectMeta, PartialObjectMeta};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for PartialObjectMeta<Namespace> {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.namespaces
    }

    /// Labels and annotations of others are not read.
    fn project(&mut self) {
        project_metadata(&mut self.metadata, 0);
    }

    /// The negotiation does not depend on it.
    fn changed(_index: &mut Index, _change: &Change<Self>) -> Vec<ObjectKey> {
        Vec::new()
    }
}

impl Indexed for PartialObjectMeta<ReplicaSet> {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.replica_sets
    }

    /// Nothing but the owner is read.
    fn project(&mut self) {
        let metadata = std::mem::take(&mut self.metadata);
        self.metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            owner_references: metadata.owner_references,
            ..ObjectMeta::default()
        };
        project_metadata(&mut self.metadata, 0);
    }

    /// The negotiation does not depend on it.
    fn changed(_index: &mut Index, _change: &Change<Self>) -> Vec<ObjectKey> {
        Vec::new()
    }
}

impl Index {
    /// The namespace of that name.
    pub(crate) fn namespace(&self, name: &str) -> Option<&Arc<PartialObjectMeta<Namespace>>> {
        self.namespaces.get(&ObjectKey::new("", name))
    }

    /// The names of all namespaces.
    pub(crate) fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|(key, _)| key.name.as_str())
    }

    /// The ReplicaSet of that key.
    pub(crate) fn replica_set(&self, key: &ObjectKey) -> Option<&Arc<PartialObjectMeta<ReplicaSet>>> {
        self.replica_sets.get(key)
    }

    /// The ReplicaSets of a namespace.
    pub(crate) fn replica_sets_of(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<PartialObjectMeta<ReplicaSet>>)> {
        self.replica_sets.namespace(namespace)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_refreshing_needs_survives_the_pruning() {
        let mut namespace: PartialObjectMeta<Namespace> = serde_json::from_value(json!({"metadata": {
            "name": "shop", "uid": "n", "resourceVersion": "1", "labels": {"refresh.evacuation.dev/enabled": "true", "team": "x"},
            "annotations": {"refresh.evacuation.dev/after": "1m", "evacuation.dev/x": "5", "notevacuation.dev/x": "long"}, "managedFields": [{}],
        }}))
        .unwrap();
        namespace.project();
        let metadata = namespace.metadata;
        assert_eq!(metadata.name.as_deref(), Some("shop"));
        assert_eq!(
            metadata.labels.unwrap().into_keys().collect::<Vec<_>>(),
            ["refresh.evacuation.dev/enabled"]
        );
        assert_eq!(metadata.annotations.unwrap().len(), 2);
        assert_eq!(metadata.managed_fields, None);

        let owners = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
        let mut replica_set: PartialObjectMeta<ReplicaSet> = serde_json::from_value(json!({"metadata": {
            "namespace": "shop", "name": "web-1", "uid": "r", "resourceVersion": "1", "labels": {"app": "x"},
            "ownerReferences": owners,
        }}))
        .unwrap();
        replica_set.project();
        assert_eq!(replica_set.metadata.labels, None);
        assert_eq!(replica_set.metadata.owner_references.unwrap().len(), 1);
        assert_eq!(replica_set.metadata.uid.as_deref(), Some("r"));
    }
}
