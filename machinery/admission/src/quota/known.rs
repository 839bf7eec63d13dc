//! Quotas with object counts, by namespace.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::watch::{Known, Objects};

/// Quotas with object counts, by namespace.
#[derive(Debug, Default)]
pub(super) struct KnownQuotas {
    namespaces: HashMap<String, Vec<Arc<ResourceQuota>>>,
    overflow: bool,
}

impl KnownQuotas {
    /// Takes the state of the watch.
    pub(super) fn update(&mut self, known: Known<'_, ResourceQuota>) {
        self.overflow = matches!(known, Known::Overflow);
        match known {
            Known::All { objects, changed: Some((namespace, _)) } => {
                let quotas = of_namespace(objects, namespace);
                if quotas.is_empty() {
                    self.namespaces.remove(namespace);
                } else {
                    self.namespaces.insert(namespace.clone(), quotas);
                }
            }
            Known::All { objects, changed: None } => {
                self.namespaces.clear();
                for ((namespace, _), quota) in objects {
                    self.namespaces.entry(namespace.clone()).or_default().push(quota.clone());
                }
            }
            Known::Overflow => self.namespaces.clear(),
        }
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
        known.update(Known::All { objects: &objects(&[("a", "q"), ("b", "q"), ("b", "r")]), changed: None });
        assert_eq!((known.of("a").len(), known.of("b").len()), (1, 2));
        let changed = ("b".to_owned(), "q".to_owned());
        let others = known.of("a").as_ptr();
        known.update(Known::All { objects: &objects(&[("a", "q"), ("b", "r")]), changed: Some(&changed) });
        assert_eq!((known.of("a").as_ptr(), known.of("b").len()), (others, 1));
        known.update(Known::All { objects: &objects(&[("a", "q")]), changed: Some(&changed) });
        assert!(known.of("b").is_empty() && known.namespaces.len() == 1);
    }
}
