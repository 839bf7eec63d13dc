//! Snapshot of one namespace.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::PartialObjectMeta;

use super::{
    history::{created, owner_uid},
    limits::Recent,
    opt_in::{OptIn, opt_in},
    owner::ReplicaSets,
};
use crate::cluster::Index;

/// Time for which requests in the whole cluster are counted.
const LATELY: TimeDelta = TimeDelta::minutes(2);

/// Snapshot of one namespace, and the times of recent requests in all namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The namespace itself.
    pub(super) namespace: Option<Arc<PartialObjectMeta<Namespace>>>,
    /// Its ReplicaSets.
    pub(super) replica_sets: ReplicaSets,
    /// Its pods.
    pub(super) pods: Vec<Arc<Pod>>,
    /// Its Evacuations, of every requester.
    pub(super) evacuations: Vec<Arc<Evacuation>>,
    /// Name of the namespace.
    pub(super) name: String,
    /// Times at which this requester asked pods of the whole cluster.
    pub(super) recent: Recent,
}

impl Snapshot {
    /// Takes the snapshot of a namespace.
    pub(super) fn of(index: &Index, namespace: &str, now: DateTime<Utc>) -> Self {
        let mut recent = Recent::default();
        for (key, evacuation) in index.evacuations().filter(|(_, known)| owner_uid(known).is_some()) {
            let created = created(evacuation);
            if created + LATELY > now {
                recent.add(&key.namespace, created);
            }
        }
        Self {
            name: namespace.to_owned(),
            recent,
            namespace: index.namespace(namespace).cloned(),
            replica_sets: index
                .replica_sets_of(namespace)
                .map(|(key, replica_set)| (key.name.clone(), Arc::clone(replica_set)))
                .collect(),
            pods: index.pods_in(namespace).cloned().collect(),
            evacuations: index
                .evacuations_in(namespace)
                .map(|(_, evacuation)| Arc::clone(evacuation))
                .collect(),
        }
    }

    /// Returns the opt-in of a pod of the namespace.
    pub(super) fn opt_in(&self, pod: &Pod) -> OptIn {
        let namespace = self.namespace.as_deref();
        opt_in(&pod.metadata, namespace.map(|namespace| &namespace.metadata))
    }
}
