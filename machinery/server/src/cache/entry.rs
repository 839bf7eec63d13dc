//! Objects as the cache keeps them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use super::recent::Recent;
use crate::{
    ApiError, Object, Removable,
    item::{DecodedItem, Item},
    stored::Stored,
};

/// Parts of an object that are read of many objects at once, so that these need not be decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// Keys and values, each with a zero byte behind it: no label contains one.
    labels: Box<str>,
    /// Values of the kind's selectable fields, in their order.
    fields: Box<[Box<str>]>,
    /// User in whose share the object counts.
    shared_by: Option<Box<str>>,
    /// Absent for an object that stays.
    removable: Option<Box<Removable>>,
}

impl Head {
    /// The head of an object with these values of the kind's selectable fields, which counts in the share of
    /// a user and may be removed.
    pub(crate) fn new<O: Object>(
        object: &O,
        fields: impl Iterator<Item = String>,
        shared_by: Option<String>,
        removable: Option<Removable>,
    ) -> Self {
        let labels = object.meta().labels.iter().flatten();
        let labels: String = labels.flat_map(|(key, value)| [key, "\0", value, "\0"]).collect();
        Self {
            labels: labels.into_boxed_str(),
            fields: fields.map(String::into_boxed_str).collect(),
            shared_by: shared_by.map(String::into_boxed_str),
            removable: removable.map(Box::new),
        }
    }

    /// Returns the user in whose share the object counts.
    pub(crate) fn shared_by(&self) -> Option<&str> {
        self.shared_by.as_deref()
    }

    /// Returns when the object gives way to others; `None` for one that stays.
    pub(crate) fn removable(&self) -> Option<&Removable> {
        self.removable.as_deref()
    }

    /// Returns the value of a selectable field by its place in the kind's list; empty when there is none.
    pub(crate) fn field(&self, at: usize) -> &str {
        self.fields.get(at).map_or("", |value| value)
    }
}

/// Object at one revision, as the cache keeps it: its JSON and its [`Head`]. A decoded object takes several
/// times the memory.
pub(crate) struct Entry<O> {
    /// Number that no other entry has.
    identity: u64,
    /// Key relative to the prefix of the kind.
    key: Arc<str>,
    revision: i64,
    /// Stored size in bytes.
    size: usize,
    /// True when it is stored in another version of the kind than new writes are.
    outdated: bool,
    json: Bytes,
    head: Head,
    /// Absent when the revision is not that of the object: there may be another object of that revision.
    recent: Option<Arc<Recent<O>>>,
}

impl<O: Object> Entry<O> {
    pub(super) fn new(
        key: Arc<str>,
        stored: &Stored<O>,
        head: Head,
        recent: Arc<Recent<O>>,
    ) -> Result<Self, ApiError> {
        let (revision, size, outdated) = (stored.revision(), stored.size(), stored.is_outdated());
        let identity = next_identity();
        Ok(Self { identity, key, revision, size, outdated, json: stored.json()?, head, recent: Some(recent) })
    }

    /// Returns the key relative to the prefix of the kind: `NAMESPACE/NAME`, or `NAME` for cluster-scoped
    /// kinds.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the revision that last changed the object.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the stored size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns true when it is stored in another version of the kind than new writes are.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Returns the parts that need no decoding.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let mut texts = self.head.labels.split_terminator('\0');
        while let (Some(found), Some(value)) = (texts.next(), texts.next()) {
            if found == key {
                return Some(value);
            }
        }
        None
    }

    /// Returns the namespace, which is empty for cluster-scoped kinds, and the name.
    pub(crate) fn names(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }

    /// Returns the object itself. It is decoded unless that was done lately.
    pub(crate) fn object(&self) -> Result<Arc<Stored<O>>, ApiError> {
        let recent = self.recent.as_deref();
        if let Some(stored) = recent.and_then(|recent| recent.get(&self.key, self.revision)) {
            return Ok(stored);
        }
        let object = serde_json::from_slice(&self.json)
            .map_err(|source| ApiError::internal(format!("decoding {}", self.key), source))?;
        let stored = Stored::kept(object, self.revision, self.size, self.outdated, self.json.clone());
        let stored = Arc::new(stored);
        if let Some(recent) = recent {
            recent.put(&self.key, &stored);
        }
        Ok(stored)
    }

    /// Returns the same object with another resourceVersion.
    pub(super) fn at(&self, revision: i64) -> Result<Self, ApiError> {
        let stored = Stored::new(O::clone(&*self.object()?), revision);
        Ok(Self {
            identity: next_identity(),
            key: self.key.clone(),
            revision,
            size: self.size,
            outdated: self.outdated,
            json: stored.json()?,
            head: self.head.clone(),
            recent: None,
        })
    }
}

fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<O> fmt::Debug for Entry<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl<O: Object> Item for Entry<O> {
    fn name(&self) -> &str {
        self.names().1
    }

    fn json(&self) -> Result<Bytes, ApiError> {
        Ok(self.json.clone())
    }

    fn identity(&self) -> Option<u64> {
        Some(self.identity)
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<dyn DecodedItem>, ApiError> {
        Ok(self.object()?)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use crate::cache::testing::entry;

    #[test]
    fn labels_are_found_without_decoding_the_object() {
        let mut object = ConfigMap::default();
        let labels = [("app", "db"), ("empty", ""), ("last", "db")];
        object.metadata.labels = Some(labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let labelled = entry("n/a", 1, object);
        for (key, value) in labels {
            assert_eq!(labelled.label(key), Some(value), "{key}");
        }
        assert_eq!(labelled.label("db"), None, "a value is no key");
        assert_eq!(entry("n/a", 1, ConfigMap::default()).label("app"), None);
        assert_eq!((labelled.names(), entry("a", 1, ConfigMap::default()).names()), (("n", "a"), ("", "a")));
    }
}
