//! The number and size of the objects of each namespace.

use std::collections::HashMap;

/// Number and size of stored objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) objects: usize,
    /// Bytes as the store has them.
    pub(crate) bytes: usize,
}

impl Usage {
    /// One object of that size.
    pub(crate) fn object(bytes: usize) -> Self {
        Self { objects: 1, bytes }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(other.objects),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Usage of each namespace, and of all together. Cluster-scoped objects count in the namespace with the empty
/// name.
#[derive(Debug, Default)]
pub(super) struct NamespaceUsage {
    total: Usage,
    by_namespace: HashMap<String, Usage>,
}

impl NamespaceUsage {
    /// Counts an object under a key relative to the kind's prefix.
    pub(super) fn add(&mut self, key: &str, bytes: usize) {
        let added = Usage::object(bytes);
        self.total = self.total.plus(added);
        let namespace = self.by_namespace.entry(namespace_of(key).to_owned()).or_default();
        *namespace = namespace.plus(added);
    }

    pub(super) fn remove(&mut self, key: &str, bytes: usize) {
        let removed = Usage::object(bytes);
        self.total = self.total.minus(removed);
        let name = namespace_of(key);
        if let Some(namespace) = self.by_namespace.get_mut(name) {
            *namespace = namespace.minus(removed);
            if namespace.objects == 0 {
                self.by_namespace.remove(name);
            }
        }
    }

    pub(super) fn total(&self) -> Usage {
        self.total
    }

    pub(super) fn of(&self, namespace: &str) -> Usage {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// The most objects and the most bytes that any namespace has.
    pub(super) fn largest(&self) -> Usage {
        let all = self.by_namespace.values();
        all.fold(Usage::default(), |most, usage| Usage {
            objects: most.objects.max(usage.objects),
            bytes: most.bytes.max(usage.bytes),
        })
    }
}

/// Returns the namespace of a key relative to the kind's prefix.
pub(super) fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_in_their_namespace_and_in_all() {
        let mut usage = NamespaceUsage::default();
        usage.add("shop/a", 10);
        usage.add("shop/b", 20);
        usage.add("bank/a", 25);
        assert_eq!(usage.of("shop"), Usage { objects: 2, bytes: 30 });
        assert_eq!(usage.total(), Usage { objects: 3, bytes: 55 });
        assert_eq!(usage.largest(), Usage { objects: 2, bytes: 30 });
        usage.remove("shop/b", 20);
        assert_eq!(usage.largest(), Usage { objects: 1, bytes: 25 });
        usage.remove("shop/a", 10);
        usage.remove("bank/a", 25);
        assert!(usage.by_namespace.is_empty());
        assert_eq!(usage.total(), Usage::default());
    }
}
