//! Objects of one kind, as the events of a watch show them.

use std::{collections::BTreeMap, sync::Arc};

use kube::{Resource, runtime::watcher::Event};

/// Namespace and name of an object.
pub(crate) type Key = (String, String);
/// Objects of one kind, by namespace and name.
pub(crate) type Objects<K> = BTreeMap<Key, Arc<K>>;

/// State of the objects after a change.
#[derive(Debug)]
pub(crate) enum Known<'a, K> {
    /// All objects that matter.
    All {
        objects: &'a Objects<K>,
        /// Object that alone was changed or deleted; `None` when any can have changed.
        changed: Option<&'a Key>,
    },
    /// There are more objects than are kept. Some of them are not known.
    Overflow,
}

// Not derived, which would ask the same of the kind.
impl<K> Clone for Known<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Known<'_, K> {}

/// Effect of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing has changed, or a list is not complete.
    Nothing,
    /// The list is complete.
    Listed,
    /// One object has changed.
    Changed(Key),
    /// There have become too many objects.
    Overflow,
    /// While there are too many objects, one of them has gone. A new list shows if they are still too many.
    Vacancy,
}

/// Objects of one kind, no more than a number of them.
///
/// An object beyond the number is dropped. From then on the others are not all that exist, even when some of
/// them are deleted. Only a complete list ends that state.
#[derive(Debug)]
pub(super) struct Index<K> {
    most: usize,
    matters: fn(&K) -> bool,
    current: Kept<K>,
    listed: Kept<K>,
}

#[derive(Debug)]
struct Kept<K> {
    objects: Objects<K>,
    overflow: bool,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self { objects: Objects::new(), overflow: false }
    }
}

impl<K> Kept<K> {
    /// Keeps an object if there is room.
    fn insert(&mut self, most: usize, key: Key, object: K) {
        if self.objects.len() < most || self.objects.contains_key(&key) {
            self.objects.insert(key, Arc::new(object));
        } else {
            self.overflow = true;
        }
    }
}

impl<K: Resource> Index<K> {
    /// Keeps at most that many of the objects that matter.
    pub(super) fn new(most: usize, matters: fn(&K) -> bool) -> Self {
        Self { most, matters, current: Kept::default(), listed: Kept::default() }
    }

    /// Takes an event.
    pub(super) fn apply(&mut self, event: Event<K>) -> Effect {
        match event {
            Event::Init => self.listed = Kept::default(),
            Event::InitApply(object) if (self.matters)(&object) => {
                self.listed.insert(self.most, key(&object), object);
            }
            Event::InitApply(_) => {}
            Event::InitDone => {
                self.current = std::mem::take(&mut self.listed);
                return Effect::Listed;
            }
            Event::Apply(object) if (self.matters)(&object) => return self.change(object),
            Event::Apply(object) | Event::Delete(object) => return self.remove(key(&object)),
        }
        Effect::Nothing
    }

    /// Returns the present state. `changed` is the key of [`Effect::Changed`].
    pub(super) fn known<'a>(&'a self, changed: Option<&'a Key>) -> Known<'a, K> {
        if self.current.overflow {
            return Known::Overflow;
        }
        Known::All { objects: &self.current.objects, changed }
    }

    pub(super) fn overflows(&self) -> bool {
        self.current.overflow
    }

    fn change(&mut self, object: K) -> Effect {
        let (key, before) = (key(&object), self.current.overflow);
        self.current.insert(self.most, key.clone(), object);
        match (before, self.current.overflow) {
            (true, _) => Effect::Nothing,
            (false, true) => Effect::Overflow,
            (false, false) => Effect::Changed(key),
        }
    }

    fn remove(&mut self, key: Key) -> Effect {
        let known = self.current.objects.remove(&key).is_some();
        if self.current.overflow {
            return Effect::Vacancy;
        }
        if known { Effect::Changed(key) } else { Effect::Nothing }
    }
}

fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    /// A config map, which matters unless its name starts with `x`.
    fn map(name: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}})).unwrap()
    }

    fn index(most: usize, listed: &[&str]) -> Index<ConfigMap> {
        let mut index = Index::new(most, |map: &ConfigMap| !key(map).1.starts_with('x'));
        list(&mut index, listed);
        index
    }

    fn list(index: &mut Index<ConfigMap>, names: &[&str]) {
        index.apply(Event::Init);
        for name in names {
            assert_eq!(index.apply(Event::InitApply(map(name))), Effect::Nothing);
        }
        assert_eq!(index.apply(Event::InitDone), Effect::Listed);
    }

    fn names(index: &Index<ConfigMap>) -> Option<Vec<&str>> {
        match index.known(None) {
            Known::All { objects, .. } => Some(objects.keys().map(|(_, name)| name.as_str()).collect()),
            Known::Overflow => None,
        }
    }

    #[test]
    fn after_an_overflow_the_index_is_incomplete_until_a_whole_list() {
        let mut index = index(2, &["a", "b"]);
        assert_eq!(names(&index), Some(vec!["a", "b"]));
        assert_eq!(index.apply(Event::Apply(map("c"))), Effect::Overflow);
        assert_eq!(index.apply(Event::Delete(map("a"))), Effect::Vacancy);
        assert_eq!(names(&index), None, "c was never kept");
        assert_eq!(index.apply(Event::Apply(map("d"))), Effect::Nothing);
        assert_eq!(names(&index), None);
        list(&mut index, &["b", "c", "d"]);
        assert_eq!(names(&index), None);
        index.apply(Event::Delete(map("b")));
        assert_eq!(names(&index), None);
        list(&mut index, &["c", "d"]);
        assert_eq!(names(&index), Some(vec!["c", "d"]));
    }

    #[test]
    fn irrelevant_objects_take_no_place() {
        let mut index = index(1, &["x1", "a", "x2"]);
        assert_eq!(names(&index), Some(vec!["a"]));
        assert_eq!(index.apply(Event::Apply(map("x3"))), Effect::Nothing);
        assert_eq!(index.apply(Event::Delete(map("x1"))), Effect::Nothing);
        assert_eq!(index.apply(Event::Delete(map("a"))), Effect::Changed(key(&map("a"))));
        assert_eq!(names(&index), Some(vec![]));
    }

    #[test]
    fn a_known_object_can_change_when_there_is_no_place_left() {
        let mut index = index(1, &["a"]);
        assert_eq!(index.apply(Event::Apply(map("a"))), Effect::Changed(key(&map("a"))));
        assert_eq!(names(&index), Some(vec!["a"]));
    }
}
