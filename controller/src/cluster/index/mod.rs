//! Index of the cluster: a plain synchronous struct, updated by watches and by the replies to writes.

mod budgets;
mod drains;
mod evacuations;
mod groups;
mod nodes;
mod owners;
mod pods;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use evacuation_protocol::PackedSelector;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::PartialObjectMeta;

pub(crate) use evacuations::{is_finished, pod_key};
pub(crate) use groups::group_key;
pub(crate) use nodes::node_name;
pub(crate) use pods::{TargetPod, controller_of};
pub(crate) use table::{Change, Comparable, Reset, Table};

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
/// An object never goes back to an older resourceVersion, but by a list that shows that the store of the API
/// went back.
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
    /// The pods of a PodGroup, by the group's key.
    by_group: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The parsed selectors of the budgets; `None` for one that selects nothing.
    selectors: BTreeMap<ObjectKey, Option<PackedSelector>>,
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
pub(crate) trait Indexed: kube::Resource<DynamicType = ()> + Comparable + Sized {
    /// The kind's table.
    #[doc(hidden)]
    fn table(index: &mut Index) -> &mut Table<Self>;

    /// Drops what the controller does not read. Each part that can repeat has a bound, because the authors of
    /// the objects decide how often it does.
    ///
    /// The result is never written back: `EvacuationApi` reads an Evacuation whole before it changes it.
    fn project(&mut self);

    /// Keeps up what is derived from the kind, and says which Evacuations to reconsider.
    #[doc(hidden)]
    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey>;
}

impl Index {
    /// Takes in the state of an object, and keeps its projection.
    pub(crate) fn apply<K: Indexed>(&mut self, mut object: K) -> Update<K> {
        object.project();
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

    /// Records that a list of a kind begins.
    pub(crate) fn begin_list<K: Indexed>(&mut self) {
        K::table(self).begin_list();
    }

    /// Returns the state of an object that is known already, if it is that very state.
    pub(crate) fn same<K: Indexed>(&mut self, object: &K) -> Option<Arc<K>> {
        K::table(self).same(object)
    }

    /// Takes in a whole list of projections: what it does not name is forgotten. Returns true as well when
    /// the list shows that the store of the API went back.
    pub(crate) fn reset<K: Indexed>(&mut self, objects: Vec<Arc<K>>) -> (Update<K>, bool) {
        let Reset { changes, went_back } = K::table(self).reset(objects);
        (self.follow(changes), went_back)
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

    /// The Evacuations of that pod's name, finished ones too, without rehearsals.
    pub(crate) fn evacuations_of(&self, pod: &ObjectKey) -> Vec<Arc<Evacuation>> {
        self.targeting(pod).filter(|evacuation| !evacuation.spec.rehearsal).cloned().collect()
    }

    /// The rehearsals of that pod's name, finished ones too.
    pub(crate) fn rehearsals_of(&self, pod: &ObjectKey) -> Vec<Arc<Evacuation>> {
        self.targeting(pod).filter(|evacuation| evacuation.spec.rehearsal).cloned().collect()
    }

    fn targeting(&self, pod: &ObjectKey) -> impl Iterator<Item = &Arc<Evacuation>> {
        self.by_pod.get(pod).into_iter().flatten().filter_map(|key| self.evacuations.get(key))
    }

    fn follow<K: Indexed>(&mut self, changes: Vec<Change<K>>) -> Update<K> {
        let touched = changes.iter().flat_map(|change| K::changed(self, change)).collect();
        Update { changes, touched }
    }

    /// The Evacuations of that pod which have not finished, rehearsals too: these wait for the pod and for
    /// its budgets as well.
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
