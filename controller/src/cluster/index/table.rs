//! The newest known state of the objects of one kind.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use evacuation_protocol::{Eviction, EvictionRequest};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Resource, ResourceExt,
    core::{DynamicObject, PartialObjectMeta},
};

use crate::cluster::ObjectKey;

/// A kind of which two states can be compared.
pub(crate) trait Comparable: ResourceExt {
    /// Returns true when both states have the same content. The names of version and kind do not count: the
    /// items of a list can lack them.
    fn equals(&self, other: &Self) -> bool;
}

macro_rules! comparable {
    ($($kind:ty),* $(,)?) => {$(
        impl Comparable for $kind {
            fn equals(&self, other: &Self) -> bool {
                self == other
            }
        }
    )*};
}

comparable! {
    Evacuation,
    Eviction,
    EvictionRequest,
    Node,
    NodeEvacuation,
    NodeEvacuationRule,
    Pod,
    PodDisruptionBudget,
}

impl<K: Resource> Comparable for PartialObjectMeta<K> {
    fn equals(&self, other: &Self) -> bool {
        self.metadata == other.metadata
    }
}

impl Comparable for DynamicObject {
    fn equals(&self, other: &Self) -> bool {
        (&self.metadata, &self.data) == (&other.metadata, &other.data)
    }
}

/// Change of one object. `old` and `new` differ in their resourceVersion, or after a restored backup in the
/// rest.
#[derive(Debug)]
pub(crate) struct Change<K> {
    /// The object's key.
    pub(crate) key: ObjectKey,
    /// State before; absent for a new object.
    pub(crate) old: Option<Arc<K>>,
    /// State now; absent for an object that is gone.
    pub(crate) new: Option<Arc<K>>,
    /// True when the object is missing from a list, without a deletion seen. The list may be older than the
    /// object.
    pub(crate) missing: bool,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone(), missing: self.missing }
    }
}

/// Maximum number of deleted objects that are remembered: as many as can be deleted while a live read is
/// under way.
const DELETED: usize = 4096;

/// The objects of one kind by key.
///
/// An object never goes back to an older resourceVersion, so that what a write returned stays although the
/// watch still reports what came before it. An object that was seen deleted does not come back, so that a
/// live read that was sent before the deletion changes nothing.
///
/// A list is the exception. It shows every write that was known when it began. If it does not, or shows
/// another state of the same resourceVersion, the store of the API was restored from a backup, and the list
/// is the truth.
#[derive(Debug)]
pub(crate) struct Table<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    deleted: Deleted,
    /// Objects that were learned since the present list began; `None` when there is none.
    since_list: Option<SinceList>,
}

/// Objects whose states or deletions were learned while a list is being read.
#[derive(Debug, Default)]
struct SinceList {
    keys: BTreeSet<ObjectKey>,
    deleted: BTreeSet<String>,
}

/// Result of taking in a whole list.
#[derive(Debug)]
pub(crate) struct Reset<K> {
    /// The changes.
    pub(crate) changes: Vec<Change<K>>,
    /// True when the list contradicts what was known when it began: the store went back.
    pub(crate) went_back: bool,
}

/// The UIDs of the objects that were deleted last, at most [`DELETED`].
#[derive(Debug, Default)]
struct Deleted {
    uids: BTreeSet<String>,
    oldest_first: VecDeque<String>,
}

impl Deleted {
    fn add(&mut self, uid: String) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.oldest_first.push_back(uid);
        if self.oldest_first.len() > DELETED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    fn remove(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.oldest_first.retain(|known| known != uid);
        }
    }

    fn contains(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.uids.contains(uid))
    }
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), deleted: Deleted::default(), since_list: None }
    }
}

impl<K: Comparable> Table<K> {
    /// The object of that key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// Every object, ordered by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter()
    }

    /// The objects of one namespace, ordered by name.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        let namespace = namespace.to_owned();
        self.objects
            .range(ObjectKey::new(namespace.clone(), "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
    }

    /// Takes in a state of an object. `None` when a state at least as new is known, or its deletion.
    pub(crate) fn apply(&mut self, object: impl Into<Arc<K>>) -> Option<Change<K>> {
        let object = object.into();
        if self.deleted.contains(object.uid().as_deref()) {
            return None;
        }
        let key = ObjectKey::of(object.as_ref());
        if self.objects.get(&key).is_some_and(|known| !is_newer(object.as_ref(), known.as_ref())) {
            return None;
        }
        if let Some(since) = &mut self.since_list {
            since.keys.insert(key.clone());
        }
        Some(self.insert(key, object))
    }

    /// Returns the state of an object that is known already, if it is that very state. A list then takes no
    /// memory for what it repeats.
    pub(crate) fn same(&self, object: &K) -> Option<Arc<K>> {
        self.objects.get(&ObjectKey::of(object)).filter(|known| known.equals(object)).cloned()
    }

    fn insert(&mut self, key: ObjectKey, new: Arc<K>) -> Change<K> {
        let old = self.objects.insert(key.clone(), Arc::clone(&new));
        Change { key, old, new: Some(new), missing: false }
    }

    /// Takes in the removal of an object. `None` when it is not known, or a newer object of its name is.
    pub(crate) fn delete(&mut self, object: &K) -> Option<Change<K>> {
        let key = ObjectKey::of(object);
        if let Some(uid) = object.uid() {
            if let Some(since) = &mut self.since_list {
                since.deleted.insert(uid.clone());
            }
            self.deleted.add(uid);
        }
        let known = self.objects.get(&key)?;
        if known.uid() != object.uid() && is_newer(known.as_ref(), object) {
            return None;
        }
        self.remove(&key)
    }

    /// Takes in that the object of that key and UID is gone. Another of the same name stays.
    pub(crate) fn remove_known(&mut self, key: &ObjectKey, uid: Option<&str>) -> Option<Change<K>> {
        self.objects.get(key).filter(|known| known.meta().uid.as_deref() == uid)?;
        self.remove(key)
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        self.objects.remove(key).map(|old| Change {
            key: key.clone(),
            old: Some(old),
            new: None,
            missing: false,
        })
    }

    /// Records that a list begins. The list is no older than the known objects, unless the store went back.
    pub(crate) fn begin_list(&mut self) {
        self.since_list = Some(SinceList::default());
    }

    /// Takes in a whole list: what it does not name is forgotten, and counts as missing. A list without a
    /// recorded beginning may be older than what is known.
    pub(crate) fn reset(&mut self, objects: Vec<Arc<K>>) -> Reset<K> {
        let since = self.since_list.take();
        let listed: BTreeSet<ObjectKey> =
            objects.iter().map(|object| ObjectKey::of(object.as_ref())).collect();
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        let removed = gone.iter().filter_map(|key| self.remove(key));
        let mut changes: Vec<Change<K>> = removed.map(|change| Change { missing: true, ..change }).collect();
        let mut went_back = false;
        for object in objects {
            match since.as_ref().filter(|since| self.contradicts(&object, since)) {
                Some(_) => {
                    went_back = true;
                    self.deleted.remove(object.uid().as_deref().unwrap_or_default());
                    changes.push(self.insert(ObjectKey::of(object.as_ref()), object));
                }
                None => changes.extend(self.apply(object)),
            }
        }
        Reset { changes, went_back }
    }

    /// Returns true when a listed object is older than a state, or than a deletion, that was known before the
    /// list began, and when it is another state of the same resourceVersion.
    fn contradicts(&self, listed: &Arc<K>, since: &SinceList) -> bool {
        let (key, uid) = (ObjectKey::of(listed.as_ref()), listed.uid());
        let known = self.objects.get(&key).filter(|_| !since.keys.contains(&key));
        let other = known.filter(|known| !Arc::ptr_eq(known, listed) && !known.equals(listed));
        let revived = self.deleted.contains(uid.as_deref())
            && !since.deleted.contains(uid.as_deref().unwrap_or_default());
        revived || other.is_some_and(|known| !is_newer(listed.as_ref(), known.as_ref()))
    }
}

/// Returns true when `object` is of a later resourceVersion than `known`. Kubernetes' resourceVersions of one
/// resource can be compared as numbers (KEP-5504); one that is no number counts as later unless it is the
/// same.
fn is_newer<K: ResourceExt>(object: &K, known: &K) -> bool {
    let (new, old) = (object.resource_version(), known.resource_version());
    match (number(new.as_deref()), number(old.as_deref())) {
        (Some(new), Some(old)) => new > old,
        _ => new != old || new.is_none(),
    }
}

fn number(version: Option<&str>) -> Option<u128> {
    version.and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use kube::core::TypeMeta;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str, version: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version}
        }))
        .unwrap()
    }

    fn version(table: &Table<Pod>, name: &str) -> Option<String> {
        table.get(&ObjectKey::new("ns", name)).and_then(|pod| pod.resource_version())
    }

    #[test]
    fn an_object_never_goes_back_to_an_older_resource_version() {
        let mut table = Table::default();
        assert!(table.apply(pod("a", "1", "9")).is_some());
        assert!(table.apply(pod("a", "1", "10")).is_some(), "versions are compared as numbers");
        assert!(table.apply(pod("a", "1", "9")).is_none());
        assert!(table.apply(pod("a", "1", "10")).is_none());
        assert_eq!(version(&table, "a").as_deref(), Some("10"));
    }

    #[test]
    fn a_late_deletion_does_not_remove_the_next_object_of_that_name() {
        let mut table = Table::default();
        table.apply(pod("a", "2", "20"));
        assert!(table.delete(&pod("a", "1", "15")).is_none());
        assert!(table.delete(&pod("a", "2", "21")).is_some());
        assert_eq!(version(&table, "a"), None);
    }

    #[test]
    fn a_late_reply_that_an_object_is_gone_does_not_remove_the_next_one_of_that_name() {
        let (mut table, key) = (Table::default(), ObjectKey::new("ns", "a"));
        table.apply(pod("a", "2", "20"));
        assert!(table.remove_known(&key, Some("1")).is_none());
        assert_eq!(version(&table, "a").as_deref(), Some("20"));
        assert!(table.remove_known(&key, Some("2")).is_some());
        assert!(table.remove_known(&key, Some("2")).is_none());
    }

    #[test]
    fn a_live_read_that_returns_after_the_deletion_brings_nothing_back() {
        let mut table = Table::default();
        table.apply(pod("a", "1", "5"));
        table.delete(&pod("a", "1", "6"));
        assert!(table.apply(pod("a", "1", "5")).is_none());
        assert!(table.reset(vec![pod("a", "1", "5").into()]).changes.is_empty(), "nor does an old list");
        assert!(table.apply(pod("a", "2", "4")).is_some(), "the next object of that name");
        assert!(table.delete(&pod("b", "3", "7")).is_none());
        assert!(table.apply(pod("b", "3", "6")).is_none(), "it was deleted before it was seen");
    }

    #[test]
    fn the_deleted_objects_that_are_remembered_are_bounded() {
        let mut table = Table::default();
        for number in 0..=DELETED {
            table.delete(&pod("a", &number.to_string(), "5"));
        }
        assert_eq!((table.deleted.uids.len(), table.deleted.oldest_first.len()), (DELETED, DELETED));
        assert!(!table.deleted.contains(Some("0")) && table.deleted.contains(Some("1")));
    }

    #[test]
    fn a_reset_removes_what_the_list_does_not_name_and_keeps_what_is_newer() {
        let mut table = Table::default();
        table.apply(pod("a", "1", "5"));
        table.apply(pod("b", "2", "10"));
        table.apply(pod("d", "4", "12"));
        table.begin_list();
        table.apply(pod("b", "2", "30"));
        table.apply(pod("d", "4", "31"));
        table.delete(&pod("d", "4", "32"));
        let Reset { changes, went_back } =
            table.reset([pod("b", "2", "20"), pod("c", "3", "21"), pod("d", "4", "12")].map(Arc::new).into());
        assert!(!went_back, "b and d changed after the list began");
        let names: Vec<(&str, bool)> =
            changes.iter().map(|c| (c.key.name.as_str(), c.new.is_some())).collect();
        assert_eq!(names, [("a", false), ("c", true)]);
        assert_eq!(version(&table, "b").as_deref(), Some("30"));
    }

    #[test]
    fn a_list_that_lacks_what_was_known_when_it_began_is_the_truth_after_a_restored_backup() {
        let mut table = Table::default();
        table.apply(pod("changed", "1", "50"));
        table.apply(pod("same", "2", "20"));
        table.apply(pod("ghost", "3", "40"));
        table.apply(pod("deleted", "4", "10"));
        table.delete(&pod("deleted", "4", "45"));
        let list = || {
            [pod("changed", "1", "30"), pod("same", "2", "20"), pod("deleted", "4", "10")]
                .map(Arc::new)
                .into()
        };
        assert!(!table.reset(list()).went_back, "nobody knows when this list began");
        table.begin_list();
        let Reset { changes, went_back } = table.reset(list());
        assert!(went_back);
        let names: Vec<&str> = changes.iter().map(|change| change.key.name.as_str()).collect();
        assert_eq!(names, ["changed", "deleted"]);
        assert_eq!(version(&table, "changed").as_deref(), Some("30"));
        assert_eq!(version(&table, "deleted").as_deref(), Some("10"));
        assert_eq!(version(&table, "ghost"), None);
        assert!(table.apply(pod("changed", "1", "31")).is_some(), "the new history goes on");
        table.begin_list();
        assert!(!table.reset(vec![pod("changed", "1", "31").into()]).went_back, "once");
    }

    #[test]
    fn another_state_of_the_same_resource_version_in_a_list_is_the_truth_after_a_restored_backup() {
        let with_phase = |phase: &str| {
            let mut object = pod("a", "1", "5");
            object.status = serde_json::from_value(json!({"phase": phase})).unwrap();
            object
        };
        let (running, failed) = (with_phase("Running"), with_phase("Failed"));
        let mut table = Table::default();
        table.apply(running.clone());
        let known = table.same(&running).unwrap();
        assert!(table.same(&failed).is_none());
        assert!(table.apply(failed.clone()).is_none(), "a late reply to a read is no list");

        table.begin_list();
        let Reset { changes, went_back } = table.reset(vec![known]);
        assert!(changes.is_empty() && !went_back, "a list that repeats what is known");
        table.begin_list();
        let Reset { changes, went_back } = table.reset(vec![failed.clone().into()]);
        assert_eq!((changes.len(), went_back), (1, true));
        assert_eq!(changes[0].old.as_deref(), Some(&running));
        assert_eq!(**table.get(&ObjectKey::new("ns", "a")).unwrap(), failed);
    }

    #[test]
    fn items_of_a_list_that_lack_their_kind_are_no_other_state() {
        let bare = |replicas: i64| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"replicas": replicas}}))
                .unwrap()
        };
        let typed = DynamicObject { types: Some(TypeMeta::default()), ..bare(1) };
        assert!(typed.equals(&bare(1)));
        assert!(!typed.equals(&bare(2)));
    }

    #[test]
    fn a_namespace_is_listed_without_its_neighbours() {
        let mut table = Table::default();
        for (namespace, name) in [("n", "x"), ("ns", "a"), ("ns", "b"), ("ns-2", "c")] {
            let mut object = pod(name, name, "1");
            object.metadata.namespace = Some(namespace.to_owned());
            table.apply(object);
        }
        let names: Vec<&str> = table.namespace("ns").map(|(key, _)| key.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
