//! The cluster view: the index, and the events that follow from its changes.

use std::sync::{Arc, Mutex, MutexGuard};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::PartialObjectMeta;

use super::{
    Change, ClusterEvent, Features, Index, ObjectKey,
    index::{Indexed, Update},
    lock,
};

/// A kind whose changes are events.
pub(crate) trait Viewed: Indexed {
    /// Returns the event of a change.
    fn event(change: &Change<Self>) -> ClusterEvent<'_>;
}

macro_rules! viewed {
    ($($kind:ty => $event:ident),* $(,)?) => {$(
        impl Viewed for $kind {
            fn event(change: &Change<Self>) -> ClusterEvent<'_> {
                ClusterEvent::$event(change)
            }
        }
    )*};
}

viewed! {
    Evacuation => Evacuation,
    NodeEvacuation => NodeEvacuation,
    NodeEvacuationRule => NodeEvacuationRule,
    Node => Node,
    Pod => Pod,
    PodDisruptionBudget => Budget,
    PartialObjectMeta<Namespace> => Namespace,
    PartialObjectMeta<ReplicaSet> => ReplicaSet,
}

/// The index, and the features that learn of its changes.
pub(crate) struct View {
    index: Mutex<Index>,
    features: Arc<Features>,
}

impl View {
    /// Returns an empty view that passes its events to `features`.
    pub(crate) fn new(features: Arc<Features>) -> Self {
        Self { index: Mutex::default(), features }
    }

    /// Locks the index for reading. The caller must not hold the guard across a call of the view.
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    /// Stores the state of an object.
    pub(crate) fn apply<K: Viewed>(&self, object: K) {
        let update = self.index().apply(object);
        self.publish(&update);
    }

    /// Records the deletion of an object.
    pub(crate) fn delete<K: Viewed>(&self, object: &K) {
        let update = self.index().delete(object);
        self.publish(&update);
    }

    /// Records that the object of that key and UID does not exist. Another of the same name can.
    pub(crate) fn remove<K: Viewed>(&self, key: &ObjectKey, uid: Option<&str>) {
        let update = self.index().remove::<K>(key, uid);
        self.publish(&update);
    }

    /// Records that a list of a kind begins.
    pub(crate) fn begin_list<K: Viewed>(&self) {
        self.index().begin_list::<K>();
    }

    /// Returns the state of an object that is known already, if it is that very state.
    pub(crate) fn same<K: Viewed>(&self, object: &K) -> Option<Arc<K>> {
        self.index().same(object)
    }

    /// Stores a whole list of projections. Returns true when it shows that the store of the API went back.
    pub(crate) fn reset<K: Viewed>(&self, objects: Vec<Arc<K>>) -> bool {
        let (update, went_back) = self.index().reset(objects);
        self.publish(&update);
        went_back
    }

    fn publish<K: Viewed>(&self, update: &Update<K>) {
        for event in update.changes.iter().map(K::event) {
            self.features.handle(&event);
        }
        if !update.touched.is_empty() {
            self.features.handle(&ClusterEvent::Affected(&update.touched));
        }
    }
}
