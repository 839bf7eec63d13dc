//! Objects as a watch tells them. A list that is told again replaces them once it is whole.

use std::collections::BTreeMap;

use kube::{ResourceExt, runtime::watcher::Event};

/// Objects by namespace and name.
type Objects<K> = BTreeMap<(Option<String>, String), K>;

/// The newest known objects of a watch.
#[derive(Debug)]
pub(super) struct Listed<K> {
    objects: Objects<K>,
    /// The list that is being received.
    next: Objects<K>,
    /// True once a list was whole.
    is_known: bool,
}

impl<K: ResourceExt> Listed<K> {
    /// Knows nothing.
    pub(super) fn new() -> Self {
        Self { objects: Objects::new(), next: Objects::new(), is_known: false }
    }

    /// Returns true once a list was whole.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the objects, by namespace and name.
    pub(super) fn values(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    /// Takes an event in.
    pub(super) fn apply(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.next.clear(),
            Event::InitApply(object) => drop(self.next.insert(key(&object), object)),
            Event::InitDone => {
                self.objects = std::mem::take(&mut self.next);
                self.is_known = true;
            }
            Event::Apply(object) => drop(self.objects.insert(key(&object), object)),
            Event::Delete(object) => drop(self.objects.remove(&key(&object))),
        }
    }
}

fn key(object: &impl ResourceExt) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn named(name: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object
    }

    fn names(listed: &Listed<ConfigMap>) -> Vec<String> {
        listed.values().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn while_a_list_is_told_again_the_known_objects_stay() {
        let mut listed = Listed::new();
        for event in [Event::Init, Event::InitApply(named("b")), Event::InitApply(named("a"))] {
            listed.apply(event);
            assert!(!listed.is_known() && names(&listed).is_empty());
        }
        listed.apply(Event::InitDone);
        assert!(listed.is_known());
        assert_eq!(names(&listed), ["a", "b"]);
        listed.apply(Event::Init);
        listed.apply(Event::InitApply(named("b")));
        assert!(listed.is_known());
        assert_eq!(names(&listed), ["a", "b"]);
        listed.apply(Event::InitDone);
        listed.apply(Event::Apply(named("c")));
        listed.apply(Event::Delete(named("b")));
        assert_eq!(names(&listed), ["c"]);
    }
}
