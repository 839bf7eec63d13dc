//! Quotas with object counts, by namespace.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::watch::{Known, Objects};

/// Quotas with object counts, by namespace.
#[derive(Debug, Default)]
pub(super) struct KnownQuotas {
    namespaces: ByNamespace,
    overflow: bool,
}

/// Change of the known quotas, prepared before the lock is taken.
#[derive(Debug)]
pub(super) enum Update {
    All(ByNamespace),
    Namespace(String, Vec<Arc<ResourceQuota>>),
    Overflow,
}

/// Quotas by namespace, without empty ones.
type ByNamespace = HashMap<String, Vec<Arc<ResourceQuota>>>;

impl Update {
    /// Prepares the change to the state of the watch.
    pub(super) fn new(known: Known<'_, ResourceQuota>) -> Self {
        match known {
            Known::All { objects, changed: Some((namespace, _)) } => {
                Self::Namespace(namespace.clone(), of_namespace(objects, namespace))
            }
            Known::All { objects, changed: None } => {
                let mut namespaces = ByNamespace::new();
                for ((namespace, _), quota) in objects {
                    namespaces.entry(namespace.clone()).or_default().push(quota.clone());
                }
                Self::All(namespaces)
            }
            Known::Overflow => Self::Overflow,
        }
    }
}

impl KnownQuotas {
    /// Takes a change. Returns what it replaces, to be dropped without the lock.
    pub(super) fn apply(&mut self, update: Update) -> ByNamespace {
        self.overflow = matches!(update, Update::Overflow);
        match update {
            Update::All(namespaces) => return std::mem::replace(&mut self.namespaces, namespaces),
            Update::Overflow => return std::mem::take(&mut self.namespaces),
            Update::Namespace(namespace, quotas) if quotas.is_empty() => {
                self.namespaces.remove(&namespace);
            }
            Update::Namespace(namespace, quotas) => {
                self.namespaces.insert(namespace, quotas);
            }
        }
        ByNamespace::new()
    }

    /// Returns true when there are too many quotas to know them all.
    pub(super) fn overflows(&self) -> bool {
        self.overflow
    }

    /// Returns the quotas of a namespace.
    pub(super) fn of(&self, namespace: &str) -> &[Arc<ResourceQuota>] {
        self.namespaces.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }
}

fn of_namespace(objects: &Objects<ResourceQuota>, namespace: &str) -> Vec<Arc<ResourceQuota>> {
    let from = objects.range((namespace.to_owned(), String::new())..);
    from.take_while(|((of, _), _)| of == namespace).map(|(_, quota)| quota.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(names: &[(&str, &str)]) -> Objects<ResourceQuota> {
        let key = |(namespace, name): &(&str, &str)| ((*namespace).to_owned(), (*name).to_owned());
        names.iter().map(|name| (key(name), Arc::default())).collect()
    }

    #[test]
    fn a_change_of_one_quota_touches_its_namespace_only() {
        let mut known = KnownQuotas::default();
        let all = objects(&[("a", "q"), ("b", "q"), ("b", "r")]);
        known.apply(Update::new(Known::All { objects: &all, changed: None }));
        assert_eq!((known.of("a").len(), known.of("b").len()), (1, 2));
        let changed = ("b".to_owned(), "q".to_owned());
        let others = known.of("a").as_ptr();
        let all = objects(&[("a", "q"), ("b", "r")]);
        known.apply(Update::new(Known::All { objects: &all, changed: Some(&changed) }));
        assert_eq!((known.of("a").as_ptr(), known.of("b").len()), (others, 1));
        let all = objects(&[("a", "q")]);
        let changed = ("b".to_owned(), "r".to_owned());
        known.apply(Update::new(Known::All { objects: &all, changed: Some(&changed) }));
        assert!(known.of("b").is_empty() && known.namespaces.len() == 1);
    }
}
