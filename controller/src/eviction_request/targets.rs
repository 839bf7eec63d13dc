//! The objects of a kind that name a pod, by that pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use evacuation_protocol::{Eviction, EvictionRequest};

use crate::cluster::{Change, Comparable, ObjectKey, Table, Watched, WorkQueue, lock};

/// A kind whose objects name a pod.
pub(super) trait NamesPod: Comparable + Send + Sync {
    /// Returns the name and the UID of the pod.
    fn pod(&self) -> Option<(&str, &str)>;

    /// Removes what is not needed, and what a write of the object does not need.
    fn prune(&mut self) {}
}

impl NamesPod for EvictionRequest {
    fn pod(&self) -> Option<(&str, &str)> {
        self.spec.target.pod.as_ref().map(|pod| (pod.name.as_str(), pod.uid.as_str()))
    }

    /// Removes the metadata of others. Only the status of a request is written, which keeps the metadata.
    fn prune(&mut self) {
        self.metadata.annotations = None;
        self.metadata.labels = None;
        self.metadata.managed_fields = None;
    }
}

impl NamesPod for Eviction {
    fn pod(&self) -> Option<(&str, &str)> {
        self.spec.target.pod.as_ref().map(|pod| (pod.name.as_str(), pod.uid.as_str()))
    }
}

/// The objects of one kind. It queues the pods of those that change.
pub(super) struct Targets<K> {
    state: Mutex<State<K>>,
    queue: Arc<WorkQueue<ObjectKey>>,
}

struct State<K> {
    objects: Table<K>,
    by_pod: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    listed: bool,
}

impl<K: NamesPod> Targets<K> {
    /// Returns an empty set.
    pub(super) fn new(queue: &Arc<WorkQueue<ObjectKey>>) -> Self {
        let state = State { objects: Table::default(), by_pod: BTreeMap::new(), listed: false };
        Self { state: Mutex::new(state), queue: Arc::clone(queue) }
    }

    /// Returns true once the API listed the kind.
    pub(super) fn is_listed(&self) -> bool {
        lock(&self.state).listed
    }

    /// Returns the objects that name a pod.
    pub(super) fn of(&self, pod: &ObjectKey) -> Vec<Arc<K>> {
        let state = lock(&self.state);
        let keys = state.by_pod.get(pod).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key)).cloned().collect()
    }

    /// Returns true when objects name a pod.
    pub(super) fn name(&self, pod: &ObjectKey) -> bool {
        lock(&self.state).by_pod.contains_key(pod)
    }

    /// Returns every pod that objects name.
    pub(super) fn pods(&self) -> Vec<ObjectKey> {
        lock(&self.state).by_pod.keys().cloned().collect()
    }

    fn take_in(&self, changes: impl IntoIterator<Item = Change<K>>, state: &mut State<K>) {
        for change in changes {
            let key = &change.key;
            let pod = |object: &Arc<K>| Some(ObjectKey::new(key.namespace.clone(), object.pod()?.0));
            let (old, new) = (change.old.as_ref().and_then(pod), change.new.as_ref().and_then(pod));
            // Another object of that name can name another pod.
            if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
                let keys = state.by_pod.entry(old.clone()).or_default();
                keys.remove(key);
                if keys.is_empty() {
                    state.by_pod.remove(&old);
                }
                self.queue.add(old);
            }
            let Some(pod) = new else { continue };
            state.by_pod.entry(pod.clone()).or_default().insert(key.clone());
            self.queue.add(pod);
        }
    }
}

impl<K: NamesPod> Watched<K> for Targets<K> {
    fn project(object: &mut K) {
        object.prune();
    }

    fn keep(&self, object: K) -> Arc<K> {
        lock(&self.state).objects.same(&object).unwrap_or_else(|| Arc::new(object))
    }

    fn begin_list(&self) {
        lock(&self.state).objects.begin_list();
    }

    fn reset(&self, objects: Vec<Arc<K>>) {
        let mut state = lock(&self.state);
        let changes = state.objects.reset(objects).changes;
        state.listed = true;
        self.take_in(changes, &mut state);
    }

    fn apply(&self, object: K) {
        let mut state = lock(&self.state);
        let change = state.objects.apply(object);
        self.take_in(change, &mut state);
    }

    fn delete(&self, object: &K) {
        let mut state = lock(&self.state);
        let change = state.objects.delete(object);
        self.take_in(change, &mut state);
    }
}
