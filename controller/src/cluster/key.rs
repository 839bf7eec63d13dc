//! The name of one namespaced object.

use kube::ResourceExt;

/// Namespace and name of an object; of an Evacuation where nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    /// The namespace; empty for objects outside namespaces.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of that namespace and name.
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub(crate) fn of<K: ResourceExt>(object: &K) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
