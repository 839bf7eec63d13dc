//! Reads of the objects around a pod: its Evacuation, its ReplicaSet, and the objects that select it.

use std::sync::Arc;

use evacuation_api::Evacuation;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{PersistentVolumeClaim, Pod, Service},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::ListParams};

use super::{
    alone::{claims_of, reason, reason_of_claim},
    group::Group,
    record::{Label, Record},
    release::{Obstacle, Selecting, label, owner},
};
use crate::cluster::{CallError, Cluster, ObjectKey, View, call, controller_of, evacuations};

/// Reader of the objects around a pod.
pub(super) struct Lookup {
    client: Client,
    view: Arc<View>,
}

impl Lookup {
    /// Returns a reader.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { client: cluster.client.clone(), view: Arc::clone(&cluster.view) }
    }

    /// Reads the Evacuation that a record names. The watch may not have shown it yet.
    pub(super) async fn evacuation(
        &self,
        pod: &ObjectKey,
        record: &Record,
    ) -> Result<Option<Arc<Evacuation>>, CallError> {
        let (name, uid) = (&record.evacuation.name, &record.evacuation.uid);
        let action = format!("read evacuation {}/{name}", pod.namespace);
        let found = call(action, evacuations(&self.client, &pod.namespace).get_opt(name)).await?;
        Ok(found.filter(|e| e.metadata.uid.as_ref() == Some(uid)).map(Arc::new))
    }

    /// Returns the label that releases a pod, and the owner that it is released from.
    pub(super) async fn label(
        &self,
        key: &ObjectKey,
        pod: &Pod,
    ) -> Result<Result<(Label, OwnerReference), Obstacle>, CallError> {
        let owner = match owner(pod, controller_of(pod)) {
            Ok(owner) => owner,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let set = self.replica_set(key, &owner.name, &owner.uid).await?;
        let Some(set) = set.filter(|set| set.metadata.deletion_timestamp.is_none()) else {
            return Ok(Err(Obstacle::Gone(owner.name)));
        };
        if let Some(reason) = self.alone(key, pod, &set).await? {
            return Ok(Err(Obstacle::Alone(reason)));
        }
        let api: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let action = format!("list the services of namespace {}", key.namespace);
        let services = call(action, api.list(&ListParams::default())).await?.items;
        let mut others: Vec<Selecting> = services.iter().filter_map(Selecting::service).collect();
        others.extend(self.view.index().budgets_in(&key.namespace).filter_map(|budget| {
            Some(Selecting {
                object: format!(
                    "PodDisruptionBudget {}",
                    budget.metadata.name.as_deref().unwrap_or_default()
                ),
                selector: budget.spec.as_ref()?.selector.clone()?,
            })
        }));
        Ok(label(pod, &set, &others).map(|label| (label, owner)))
    }

    /// Returns the reason for which no second pod may run beside a pod of that ReplicaSet.
    async fn alone(&self, key: &ObjectKey, pod: &Pod, set: &ReplicaSet) -> Result<Option<String>, CallError> {
        let namespace = &key.namespace;
        let owner =
            set.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let owner = owner.filter(|owner| owner.kind == "Deployment" && owner.api_version == "apps/v1");
        let mut deployment = None;
        if let Some(OwnerReference { name, .. }) = owner {
            let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
            deployment = call(format!("read deployment {namespace}/{name}"), api.get_opt(name)).await?;
        }
        if let Some(reason) = reason(pod, set, deployment.as_ref()) {
            return Ok(Some(reason));
        }
        let claims = match claims_of(set) {
            Ok(claims) => claims,
            Err(reason) => return Ok(Some(reason)),
        };
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        for name in claims {
            let action = format!("read persistentvolumeclaim {namespace}/{name}");
            let claim = call(action, api.get_opt(name)).await?;
            if let Some(reason) = claim.as_ref().and_then(reason_of_claim) {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// Reads the ReplicaSet of a record, with its pods from the index. `None` when it is gone.
    pub(super) async fn group(&self, pod: &ObjectKey, record: &Record) -> Result<Option<Group>, CallError> {
        let (name, uid) = (&record.replica_set.name, &record.replica_set.uid);
        let Some(set) = self.replica_set(pod, name, uid).await? else {
            return Ok(None);
        };
        let index = self.view.index();
        Ok(Group::of(&set, index.pods_in(&pod.namespace).cloned()))
    }

    /// Reads the ReplicaSet of a record and its pods. `None` when it is gone.
    pub(super) async fn fresh_group(
        &self,
        pod: &ObjectKey,
        record: &Record,
    ) -> Result<Option<Group>, CallError> {
        let (name, uid) = (&record.replica_set.name, &record.replica_set.uid);
        let Some(set) = self.replica_set(pod, name, uid).await? else {
            return Ok(None);
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let action = format!("list the pods of replicaset {}/{name}", pod.namespace);
        // The pods carry the label, whatever the selector says of it.
        let parameters = ListParams::default().labels(&record.label.key);
        let pods = call(action, api.list(&parameters)).await?.items;
        Ok(Group::of(&set, pods.into_iter().map(Arc::new)))
    }

    async fn replica_set(
        &self,
        pod: &ObjectKey,
        name: &str,
        uid: &str,
    ) -> Result<Option<ReplicaSet>, CallError> {
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &pod.namespace);
        let action = format!("read replicaset {}/{name}", pod.namespace);
        let found = call(action, api.get_opt(name)).await?;
        Ok(found.filter(|set| set.metadata.uid.as_deref() == Some(uid)))
    }
}
