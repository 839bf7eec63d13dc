//! Sorted index of the objects and ring of the latest changes. Synchronous and without I/O.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    change::Change,
    entry::{Entry, Head},
    scope::Scope,
    snapshot::{Objects, Snapshot},
    usage::{NamespaceUsage, Usage, namespace_of},
};
use crate::Object;

/// Minimum number of changes that are kept whatever their age, so that a watch on a quiet kind can be
/// resumed.
const KEPT: usize = 1024;
/// Minimum age before changes beyond `KEPT` are dropped: the time that a client may take to resume its watch.
const KEPT_FOR: Duration = Duration::from_secs(75);
/// Maximum number of changes.
const MOST: usize = 20_000;
/// Maximum size of the objects of the changes, in bytes.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Objects of a kind at one revision.
#[derive(Debug)]
pub(crate) struct Contents<O> {
    /// Objects, and the stand-ins of those that this version of the server cannot read.
    pub(crate) objects: Objects<O>,
    /// Keys of the objects that this version of the server cannot read.
    pub(crate) unreadable: BTreeSet<String>,
}

impl<O> Contents<O> {
    pub(crate) fn new() -> Self {
        Self { objects: Objects::new(), unreadable: BTreeSet::new() }
    }
}

/// Objects of one kind at one revision, and the changes that led to it.
#[derive(Debug)]
pub(crate) struct Index<O> {
    /// Revision that the index shows.
    revision: i64,
    /// Oldest revision whose state can be rebuilt, and after which every change is known.
    floor: i64,
    /// Objects, and the stand-ins of those in `unreadable`. Readers that do not skip these fail before they
    /// see a stand-in.
    objects: Objects<O>,
    changes: VecDeque<Arc<Change<O>>>,
    /// Stored size of the objects of `changes`, in bytes.
    bytes: usize,
    /// Maximum of `bytes`.
    most_bytes: usize,
    /// Keys of the objects that this version of the server cannot read.
    unreadable: BTreeSet<String>,
    /// An object that cannot be read counts as an object of size 0.
    usage: NamespaceUsage,
}

impl<O: Object> Index<O> {
    pub(crate) fn new() -> Self {
        Self {
            revision: 0,
            floor: 0,
            objects: Objects::new(),
            changes: VecDeque::new(),
            bytes: 0,
            most_bytes: MOST_BYTES,
            unreadable: BTreeSet::new(),
            usage: NamespaceUsage::default(),
        }
    }

    /// Returns the usage of a namespace and of all namespaces.
    pub(crate) fn usage(&self, namespace: &str) -> (Usage, Usage) {
        (self.usage.of(namespace), self.usage.total())
    }

    /// Returns the objects of a namespace, or of all for `None`.
    pub(crate) fn entries(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Entry<O>>> {
        // The keys of cluster-scoped objects have no prefix.
        let first = namespace.filter(|name| !name.is_empty()).map(|name| format!("{name}/"));
        let first = first.as_deref().unwrap_or_default();
        let from = self.objects.range::<_, str>((Bound::Included(first), Bound::Unbounded));
        let of_scope =
            from.take_while(move |(key, _)| namespace.is_none_or(|name| namespace_of(key) == name));
        of_scope.map(|(_, entry)| entry)
    }

    /// Returns the usage of the objects of a namespace that a test picks.
    pub(crate) fn usage_of(&self, namespace: &str, picks: impl Fn(&Head) -> bool) -> Usage {
        let picked = self.entries(Some(namespace)).filter(|entry| picks(entry.head()));
        picked.fold(Usage::default(), |sum, entry| sum.plus(Usage::object(entry.size())))
    }

    /// Returns the usage of all namespaces, and the largest number and size of any namespace.
    pub(crate) fn summary(&self) -> (Usage, Usage) {
        (self.usage.total(), self.usage.largest())
    }

    /// Returns the revision that the index shows; 0 before the first filling.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Replaces all contents; the changes before are forgotten.
    pub(crate) fn replace(&mut self, revision: i64, contents: Contents<O>) {
        let mut usage = NamespaceUsage::default();
        contents.objects.iter().for_each(|(key, entry)| usage.add(key, entry.size()));
        let has_stand_in = |key: &&String| contents.objects.contains_key(key.as_str());
        contents.unreadable.iter().filter(|key| !has_stand_in(key)).for_each(|key| usage.add(key, 0));
        *self = Self {
            revision,
            floor: revision,
            objects: contents.objects,
            changes: VecDeque::new(),
            bytes: 0,
            most_bytes: self.most_bytes,
            unreadable: contents.unreadable,
            usage,
        };
    }

    /// Applies one write; `current` is `None` for a removal. Returns the change, or `None` when there is
    /// nothing to tell. Where the object could not be read before, only the readers that skip such objects
    /// can follow, and the change is not remembered.
    pub(crate) fn apply(
        &mut self,
        revision: i64,
        key: &str,
        current: Option<Arc<Entry<O>>>,
    ) -> Option<Arc<Change<O>>> {
        let (key_of_map, previous) = match &current {
            Some(current) => {
                (current.key().clone(), self.objects.insert(current.key().clone(), current.clone()))
            }
            None => (key.into(), self.objects.remove(key)),
        };
        self.progress(revision);
        let unreadable = self.unreadable.remove(key);
        if previous.is_some() || unreadable {
            self.usage.remove(key, previous.as_ref().map_or(0, |entry| entry.size()));
        }
        if let Some(current) = &current {
            self.usage.add(key, current.size());
        }
        if unreadable {
            self.start_over(revision);
        }
        if current.is_none() && previous.is_none() {
            return None;
        }
        let change = Arc::new(Change::new(revision, key_of_map, current, previous));
        if unreadable {
            return Some(change);
        }
        self.bytes += change.size();
        self.changes.push_back(change.clone());
        self.forget(change.received);
        Some(change)
    }

    /// Applies a write of an object that cannot be read. The object exists and must not be treated as
    /// removed. Until it can be read or is gone, reads of a scope that covers it fail, and earlier changes
    /// are forgotten. Readers that skip such objects find `stand_in` in its place, if there is one.
    pub(crate) fn lose(&mut self, revision: i64, key: &str, stand_in: Option<Arc<Entry<O>>>) {
        let previous = match stand_in {
            Some(stand_in) => self.objects.insert(stand_in.key().clone(), stand_in),
            None => self.objects.remove(key),
        };
        if self.unreadable.insert(key.to_owned()) {
            if let Some(previous) = previous {
                self.usage.remove(key, previous.size());
            }
            self.usage.add(key, 0);
        }
        self.progress(revision);
        self.start_over(revision);
    }

    /// The keys of the objects in a scope that cannot be read.
    pub(crate) fn unreadable(&self, scope: &Scope) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str).filter(|key| scope.covers(key))
    }

    fn start_over(&mut self, revision: i64) {
        self.changes.clear();
        self.bytes = 0;
        self.floor = revision;
    }

    /// Records that nothing else happened up to that revision.
    pub(crate) fn progress(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.changes.front() {
            let old = now.saturating_duration_since(oldest.received) > KEPT_FOR;
            let too_many = self.changes.len() > MOST || self.bytes > self.most_bytes;
            if !(too_many || (self.changes.len() > KEPT && old)) {
                return;
            }
            self.floor = oldest.revision;
            self.bytes = self.bytes.saturating_sub(oldest.size());
            self.changes.pop_front();
        }
    }

    /// Returns the objects of a scope after the key `after`, in constant time.
    pub(crate) fn list(&self, scope: &Scope, after: Option<&str>) -> Snapshot<O> {
        Snapshot::new(self.revision, self.objects.clone(), scope, after)
    }

    /// Returns the objects of a scope at an earlier revision, in a time that grows with the number of changes
    /// since. `None` when the revision is too old or in the future.
    pub(crate) fn list_at(&self, revision: i64, scope: &Scope, after: Option<&str>) -> Option<Snapshot<O>> {
        if revision < self.floor || revision > self.revision {
            return None;
        }
        let mut objects = self.objects.clone();
        for change in self.changes.iter().rev().take_while(|change| change.revision > revision) {
            if scope.covers(&change.key) {
                match &change.previous {
                    Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                    None => objects.remove(&change.key),
                };
            }
        }
        Some(Snapshot::new(revision, objects, scope, after))
    }

    /// Returns one object, if it can be read.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry<O>>> {
        self.objects.get(key).filter(|_| !self.unreadable.contains(key)).cloned()
    }

    /// Returns the changes of a scope after a revision; `None` when some were forgotten.
    pub(crate) fn changes_after(&self, revision: i64, scope: &Scope) -> Option<Vec<Arc<Change<O>>>> {
        if revision < self.floor {
            return None;
        }
        let first = self.changes.partition_point(|change| change.revision <= revision);
        Some(self.changes.range(first..).filter(|change| scope.covers(&change.key)).cloned().collect())
    }

    /// Returns the oldest revision after which every change is known.
    pub(crate) fn floor(&self) -> i64 {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{
        cache::testing::{cache, entry, of_size},
        stored::Stored,
    };

    fn object(key: &str, revision: i64) -> Arc<Entry<ConfigMap>> {
        entry(key, revision, ConfigMap::default())
    }

    /// a created at 1, b at 2, a changed at 3, b removed at 4, c created at 5; starts from an empty state at
    /// 0.
    fn index() -> Index<ConfigMap> {
        let mut index = Index::new();
        index.replace(0, Contents::new());
        index.apply(1, "n/a", Some(object("n/a", 1)));
        index.apply(2, "n/b", Some(object("n/b", 2)));
        index.apply(3, "n/a", Some(object("n/a", 3)));
        index.apply(4, "n/b", None);
        index.apply(5, "o/c", Some(object("o/c", 5)));
        index
    }

    fn names(objects: &Snapshot<ConfigMap>) -> Vec<(String, i64)> {
        objects.iter().map(|o| (o.names().1.to_owned(), o.revision())).collect()
    }

    #[test]
    fn the_state_at_every_remembered_revision_can_be_told() {
        let index = index();
        let all = Scope::default();
        let cases: Vec<(i64, Vec<(&str, i64)>)> = vec![
            (0, vec![]),
            (1, vec![("a", 1)]),
            (2, vec![("a", 1), ("b", 2)]),
            (3, vec![("a", 3), ("b", 2)]),
            (4, vec![("a", 3)]),
            (5, vec![("a", 3), ("c", 5)]),
        ];
        for (revision, expected) in cases {
            let expected: Vec<_> = expected.into_iter().map(|(n, r)| (n.to_owned(), r)).collect();
            assert_eq!(
                names(&index.list_at(revision, &all, None).expect("known")),
                expected,
                "at {revision}"
            );
        }
        assert!(index.list_at(6, &all, None).is_none());
        assert_eq!(names(&index.list_at(2, &all, Some("n/a")).expect("known")), [("b".to_owned(), 2)]);
        assert_eq!(names(&index.list(&Scope::new("o", None, true), None)), [("c".to_owned(), 5)]);
    }

    #[test]
    fn the_entries_of_a_namespace_are_its_own() {
        let mut index: Index<ConfigMap> = Index::new();
        for key in ["m/z", "n-1/a", "n/a", "n/b", "n0/a", "na/a"] {
            index.apply(1, key, Some(object(key, 1)));
        }
        let keys =
            |namespace| index.entries(namespace).map(|entry| entry.key().to_string()).collect::<Vec<_>>();
        assert_eq!(keys(Some("n")), ["n/a", "n/b"]);
        assert_eq!(keys(Some("o")), [""; 0]);
        assert_eq!(keys(None).len(), 6);
        let mut of_cluster: Index<ConfigMap> = Index::new();
        of_cluster.apply(1, "a", Some(object("a", 1)));
        assert_eq!(of_cluster.entries(Some("")).count(), 1);
    }

    #[test]
    fn what_is_listed_stays_as_it_was_while_writes_go_on() {
        let mut index = index();
        let listed = index.list(&Scope::default(), None);
        index.apply(6, "n/a", None);
        index.apply(7, "n/d", Some(object("n/d", 7)));
        assert_eq!(names(&listed), [("a".to_owned(), 3), ("c".to_owned(), 5)]);
        assert_eq!((listed.revision, index.list(&Scope::default(), None).revision), (5, 7));
    }

    #[test]
    fn changes_are_told_in_order_and_only_those_that_are_wanted() {
        let index = index();
        let revisions = |after, scope: &Scope| -> Vec<i64> {
            index.changes_after(after, scope).expect("known").iter().map(|c| c.revision).collect()
        };
        assert_eq!(revisions(0, &Scope::default()), [1, 2, 3, 4, 5]);
        assert_eq!(revisions(3, &Scope::default()), [4, 5]);
        assert_eq!(revisions(0, &Scope::new("n", Some("b"), true)), [2, 4]);
        assert_eq!(revisions(5, &Scope::default()), Vec::<i64>::new());
    }

    #[test]
    fn what_was_forgotten_is_said_to_be_too_old() {
        let mut index: Index<ConfigMap> = Index::new();
        index.replace(10, Contents::new());
        assert!(index.changes_after(9, &Scope::default()).is_none());
        for revision in 11..=i64::try_from(MOST).expect("small") + 20 {
            index.apply(revision, "n/a", Some(object("n/a", revision)));
        }
        assert_eq!(index.floor(), 20);
        assert!(index.changes_after(19, &Scope::default()).is_none());
        assert!(index.list_at(19, &Scope::default(), None).is_none());
        assert_eq!(index.changes_after(20, &Scope::default()).map(|changes| changes.len()), Some(MOST));
    }

    #[test]
    fn large_objects_make_few_changes_be_remembered() {
        let mut index: Index<ConfigMap> = Index::new();
        index.most_bytes = 1000;
        index.replace(10, Contents::new());
        for revision in 11..=30 {
            index.apply(revision, "n/a", Some(of_size("n/a", revision, 300)));
        }
        let all = Scope::default();
        assert_eq!(index.changes_after(27, &all).map(|changes| changes.len()), Some(3));
        assert!(index.changes_after(26, &all).is_none());
        index.lose(31, "n/b", None);
        assert_eq!(index.bytes, 0);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_not_removed_and_hides_what_was_before() {
        let mut index = index();
        index.lose(6, "n/a", None);
        assert_eq!(index.unreadable(&Scope::default()).next(), Some("n/a"));
        assert_eq!(index.unreadable(&Scope::new("o", None, true)).next(), None);
        assert!(index.changes_after(5, &Scope::default()).is_none());
        assert!(index.get("n/a").is_none());
        let back = index.apply(7, "n/a", Some(object("n/a", 7))).expect("it enters for those who skipped it");
        assert!(back.previous.is_none() && back.current.is_some());
        assert_eq!(index.unreadable(&Scope::default()).next(), None);
        assert!(index.changes_after(6, &Scope::default()).is_none());
        assert!(index.apply(8, "n/a", None).is_some());
        index.lose(9, "o/c", None);
        assert!(index.apply(10, "o/c", None).is_none());
        assert_eq!(index.list(&Scope::default(), None).iter().count(), 0);
    }

    #[test]
    fn a_stand_in_is_listed_in_the_place_of_an_object_and_is_never_read_as_it() {
        let mut index = index();
        index.lose(6, "n/a", Some(object("n/a", 6)));
        index.lose(7, "n/a", Some(object("n/a", 7)));
        let all = Scope::default();
        assert_eq!(names(&index.list(&all, None)), [("a".to_owned(), 7), ("c".to_owned(), 5)]);
        assert!(index.get("n/a").is_none());
        assert_eq!(index.usage("n").0.objects, 1);
        let contents = Contents { objects: index.objects.clone(), unreadable: ["n/a".to_owned()].into() };
        index.replace(8, contents);
        assert_eq!((index.usage("n").0.objects, index.usage("o").1.objects), (1, 2), "counted once");
        let gone = index.apply(9, "n/a", None).expect("the stand-in leaves");
        assert!(gone.previous.is_some() && gone.current.is_none());
        assert_eq!(index.usage("n").0, Usage::default());
    }

    #[test]
    fn a_removed_object_is_shown_with_the_revision_of_its_removal() {
        let mut index = index();
        let change = index.apply(6, "o/c", None).expect("a change");
        let gone = || change.gone().expect("it can be decoded").expect("the object");
        assert_eq!(gone().object().expect("decoded").metadata.resource_version.as_deref(), Some("6"));
        assert!(Arc::ptr_eq(&gone(), &gone()), "made once");
    }

    #[test]
    fn the_object_before_a_change_is_not_mistaken_for_the_one_after_it() {
        let cache = cache();
        let object = |text: &str| {
            let data = Some([("text".to_owned(), text.to_owned())].into());
            ConfigMap { data, ..ConfigMap::default() }
        };
        let after = Arc::new(Stored::new(object("after"), 2));
        cache.remember("n/a", &after);
        let before = cache.entry("n/a", &Stored::new(object("before"), 1)).expect("an entry");
        let current = cache.entry("n/a", &after).expect("an entry");
        let change = Change::new(2, "n/a".into(), Some(current.clone()), Some(before));
        let gone = change.gone().expect("it can be decoded").expect("the object");
        assert_eq!(gone.object().expect("decoded").data, object("before").data);
        assert!(Arc::ptr_eq(&current.object().expect("known"), &after), "not decoded again");
    }
}
