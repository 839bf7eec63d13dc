//! Index of the cluster: a plain synchronous struct, updated by watches and by the replies to writes.

mod budgets;
mod drains;
mod evacuations;
mod nodes;
mod owners;
mod pods;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::{PartialObjectMeta, Selector};

pub(crate) use evacuations::{is_finished, pod_key};
pub(crate) use nodes::node_name;
pub(crate) use owners::{prune_namespace, prune_replica_set};
pub(crate) use pods::{TargetPod, controller_of, prune_pod};
pub(crate) use table::{Change, Table};

use super::ObjectKey;

/// Index of Evacuations, NodeEvacuations and their rules, pods, PodDisruptionBudgets and nodes, and of the
/// metadata of namespaces and ReplicaSets.
///
/// # Flow
///
/// [`apply`](Index::apply), [`delete`](Index::delete) and [`reset`](Index::reset) take in what a watch
/// reports, or what a write returned; they give back what changed and which Evacuations are to be
/// reconsidered.
///
/// # Guarantees
///
/// An object never goes back to an older resourceVersion.
#[derive(Debug, Default)]
pub(crate) struct Index {
    evacuations: Table<Evacuation>,
    drains: Table<NodeEvacuation>,
    rules: Table<NodeEvacuationRule>,
    pods: Table<Pod>,
    budgets: Table<PodDisruptionBudget>,
    nodes: Table<Node>,
    namespaces: Table<PartialObjectMeta<Namespace>>,
    replica_sets: Table<PartialObjectMeta<ReplicaSet>>,
    /// The Evacuations that target a pod, by the pod's key.
    by_pod: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The pods of a node, by the node's name.
    by_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The parsed selectors of the budgets; `None` for one that selects nothing.
    selectors: BTreeMap<ObjectKey, Option<Selector>>,
    /// The UIDs of targets that were seen to go.
    gone: BTreeSet<String>,
}

/// Result of taking in a state.
#[derive(Debug)]
pub(crate) struct Update<K> {
    /// The changes.
    pub(crate) changes: Vec<Change<K>>,
    /// The Evacuations to reconsider.
    pub(crate) touched: BTreeSet<ObjectKey>,
}

/// A kind that the index keeps.
pub(crate) trait Indexed: kube::Resource<DynamicType = ()> + Sized {
    /// The kind's table.
    #[doc(hidden)]
    fn table(index: &mut Index) -> &mut Table<Self>;

    /// Keeps up what is derived from the kind, and says which Evacuations to reconsider.
    #[doc(hidden)]
    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey>;
}

impl Index {
    /// Takes in the state of an object.
    pub(crate) fn apply<K: Indexed>(&mut self, object: K) -> Update<K> {
        let changes = K::table(self).apply(object).into_iter().collect();
        self.follow(changes)
    }

    /// Takes in the removal of an object.
    pub(crate) fn delete<K: Indexed>(&mut self, object: &K) -> Update<K> {
        let changes = K::table(self).delete(object).into_iter().collect();
        self.follow(changes)
    }

    /// Takes in that the object of that key and UID is gone.
    pub(crate) fn remove<K: Indexed>(&mut self, key: &ObjectKey, uid: Option<&str>) -> Update<K> {
        let changes = K::table(self).remove_known(key, uid).into_iter().collect();
        self.follow(changes)
    }

    /// Takes in a whole list: what it does not name is forgotten.
    pub(crate) fn reset<K: Indexed>(&mut self, objects: Vec<K>) -> Update<K> {
        let changes = K::table(self).reset(objects);
        self.follow(changes)
    }

    /// The Evacuation of that key.
    pub(crate) fn evacuation(&self, key: &ObjectKey) -> Option<Arc<Evacuation>> {
        self.evacuations.get(key).cloned()
    }

    /// Every Evacuation.
    pub(crate) fn evacuations(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Evacuation>)> {
        self.evacuations.iter()
    }

    /// The Evacuations of a namespace.
    pub(crate) fn evacuations_in(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<Evacuation>)> {
        self.evacuations.namespace(namespace)
    }

    /// The Evacuations of that pod's name, finished ones too.
    pub(crate) fn evacuations_of(&self, pod: &ObjectKey) -> Vec<Arc<Evacuation>> {
        let keys = self.by_pod.get(pod).into_iter().flatten();
        keys.filter_map(|key| self.evacuations.get(key)).cloned().collect()
    }

    fn follow<K: Indexed>(&mut self, changes: Vec<Change<K>>) -> Update<K> {
        let touched = changes.iter().flat_map(|change| K::changed(self, change)).collect();
        Update { changes, touched }
    }

    /// The Evacuations of that pod which have not finished.
    fn active_of(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        let Some(keys) = self.by_pod.get(pod) else {
            return Vec::new();
        };
        keys.iter()
            .filter(|key| self.evacuations.get(key).is_some_and(|e| !is_finished(e)))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests;
