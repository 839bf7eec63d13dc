//! Name of one namespaced object.

use kube::ResourceExt;

/// Namespace and name of an object, of an Evacuation unless the context says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    /// Namespace; empty for an object outside namespaces.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl ObjectKey {
    /// Returns the key of that namespace and name.
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of an object.
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
