//! Reads of the objects around a pod: its Evacuation, its ReplicaSet, and the objects that select it.

use std::{collections::BTreeMap, sync::Arc};

use evacuation_api::Evacuation;
use evacuation_protocol::selects;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{PersistentVolumeClaim, Pod, Service},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::ListParams};
use machinery_watch::Projected;

use super::{
    alone::{claims_of, reason, reason_of_claim},
    group::Group,
    projections::Read,
    record::{Label, Record},
    release::{Obstacle, Selecting, label, owner},
};
use crate::cluster::{CallError, Cluster, Kept, Lister, ObjectKey, View, call, controller_of, evacuations};

/// Reader of the objects around a pod.
pub(super) struct Lookup {
    client: Client,
    view: Arc<View>,
    lister: Arc<Lister>,
}

impl Lookup {
    /// Returns a reader.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let (view, lister) = (Arc::clone(&cluster.view), Arc::clone(&cluster.lister));
        Self { client: cluster.client.clone(), view, lister }
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
        let mut others = self.services_of(&key.namespace, pod).await?;
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

    /// Reads the Services of a namespace that select a pod. No others use its labels.
    async fn services_of(&self, namespace: &str, pod: &Pod) -> Result<Vec<Selecting>, CallError> {
        let api: Api<Projected<Service, Read>> = Api::namespaced(self.client.clone(), namespace);
        let action = format!("list the services of namespace {namespace}");
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let keep = |service| Selecting::service(&service).filter(|found| selects(&found.selector, labels));
        self.lister.list_with(action, &api, ListParams::default(), keep).await
    }

    /// Returns the reason for which no second pod may run beside a pod of that ReplicaSet.
    async fn alone(&self, key: &ObjectKey, pod: &Pod, set: &ReplicaSet) -> Result<Option<String>, CallError> {
        let namespace = &key.namespace;
        let owner =
            set.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let owner = owner.filter(|owner| owner.kind == "Deployment" && owner.api_version == "apps/v1");
        let mut deployment = None;
        if let Some(OwnerReference { name, .. }) = owner {
            let api: Api<Projected<Deployment, Read>> = Api::namespaced(self.client.clone(), namespace);
            let read = call(format!("read deployment {namespace}/{name}"), api.get_opt(name)).await?;
            deployment = read.map(Projected::into_inner);
        }
        if let Some(reason) = reason(pod, set, deployment.as_ref()) {
            return Ok(Some(reason));
        }
        let claims = match claims_of(set) {
            Ok(claims) => claims,
            Err(reason) => return Ok(Some(reason)),
        };
        let api: Api<Projected<PersistentVolumeClaim, Read>> =
            Api::namespaced(self.client.clone(), namespace);
        for name in claims {
            let action = format!("read persistentvolumeclaim {namespace}/{name}");
            let claim = call(action, api.get_opt(name)).await?.map(Projected::into_inner);
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
        let api: Api<Kept<Pod>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let action = format!("list the pods of replicaset {}/{name}", pod.namespace);
        // The pods carry the label, whatever the selector says of it.
        let parameters = ListParams::default().labels(&record.label.key);
        let pods = self.lister.list(action, &api, parameters).await?;
        Ok(Group::of(&set, pods))
    }

    async fn replica_set(
        &self,
        pod: &ObjectKey,
        name: &str,
        uid: &str,
    ) -> Result<Option<ReplicaSet>, CallError> {
        let api: Api<Projected<ReplicaSet, Read>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let action = format!("read replicaset {}/{name}", pod.namespace);
        let found = call(action, api.get_opt(name)).await?.map(Projected::into_inner);
        Ok(found.filter(|set| set.metadata.uid.as_deref() == Some(uid)))
    }
}
