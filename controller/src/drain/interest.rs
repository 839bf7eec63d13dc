//! The nodes and namespaces that each drain depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use crate::cluster::{ObjectKey, lock};

/// Finds the drains that a change concerns.
#[derive(Default)]
pub(super) struct Interest(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, BTreeSet<ObjectKey>>,
    namespaces: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl Interest {
    /// Replaces the nodes and namespaces of a drain.
    pub(super) fn set(&self, drain: &ObjectKey, nodes: &BTreeSet<String>, namespaces: &BTreeSet<String>) {
        let mut state = lock(&self.0);
        replace(&mut state.nodes, drain, nodes);
        replace(&mut state.namespaces, drain, namespaces);
    }

    /// Forgets a drain.
    pub(super) fn forget(&self, drain: &ObjectKey) {
        self.set(drain, &BTreeSet::new(), &BTreeSet::new());
    }

    /// Returns the drains that depend on a node.
    pub(super) fn of_node(&self, node: &str) -> Vec<ObjectKey> {
        lock(&self.0).nodes.get(node).into_iter().flatten().cloned().collect()
    }

    /// Returns the drains that depend on a namespace.
    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<ObjectKey> {
        lock(&self.0).namespaces.get(namespace).into_iter().flatten().cloned().collect()
    }
}

fn replace(index: &mut BTreeMap<String, BTreeSet<ObjectKey>>, drain: &ObjectKey, wanted: &BTreeSet<String>) {
    index.retain(|name, drains| {
        if !wanted.contains(name) {
            drains.remove(drain);
        }
        !drains.is_empty()
    });
    for name in wanted {
        let known = index.get(name).is_some_and(|drains| drains.contains(drain));
        if !known {
            index.entry(name.clone()).or_default().insert(drain.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_drain_hears_of_its_own_nodes_and_namespaces_only() {
        let (interest, a, b) = (Interest::default(), ObjectKey::new("", "a"), ObjectKey::new("", "b"));
        let only_b = [b.clone()];
        interest.set(&a, &set(&["n1", "n2"]), &set(&["shop"]));
        interest.set(&b, &set(&["n2"]), &set(&["shop", "web"]));
        assert_eq!(interest.of_node("n2"), [a.clone(), b.clone()]);
        assert_eq!(interest.of_namespace("web"), only_b);
        interest.set(&a, &set(&["n1"]), &set(&[]));
        assert_eq!(interest.of_node("n2"), only_b);
        assert_eq!(interest.of_namespace("shop"), only_b);
        interest.forget(&b);
        assert_eq!(interest.of_node("n2"), []);
        assert_eq!(interest.of_node("n1"), [a]);
    }
}
