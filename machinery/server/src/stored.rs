//! Stored objects.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use machinery_storage::KeyValue;
use serde_json::Value;

use crate::{ApiError, Object};

/// Object as stored at one revision, which is its resourceVersion. It derefs to the object.
///
/// Its JSON is made when first needed, and shared by all replies and watches.
#[derive(Debug)]
pub struct Stored<O> {
    object: O,
    revision: i64,
    /// Stored size in bytes; 0 when it was not read from the store.
    size: usize,
    /// True when it is stored in another version of the kind than new writes are.
    outdated: bool,
    json: OnceLock<Bytes>,
}

impl<O: Object> Stored<O> {
    /// Creates the object as of that revision.
    pub(crate) fn new(mut object: O, revision: i64) -> Self {
        object.meta_mut().resource_version = Some(revision.to_string());
        Self::shown(object, revision)
    }

    /// Creates the object as of that revision, which its metadata has already.
    pub(crate) fn shown(object: O, revision: i64) -> Self {
        Self { object, revision, size: 0, outdated: false, json: OnceLock::new() }
    }

    /// Creates the object whose write, of that size, has just been made at that revision.
    pub(crate) fn written(object: O, revision: i64, size: usize) -> Self {
        Self { size, ..Self::new(object, revision) }
    }

    /// Creates the object that was decoded from its own JSON.
    pub(crate) fn kept(object: O, revision: i64, size: usize, outdated: bool, json: Bytes) -> Self {
        Self { size, outdated, json: json.into(), ..Self::shown(object, revision) }
    }

    /// Creates the object that was read from the store.
    pub(crate) fn read(object: O, found: &KeyValue, outdated: bool) -> Self {
        Self { size: found.value.len(), outdated, ..Self::new(object, found.mod_revision) }
    }

    /// Creates the object as it would be stored, for a dry run. Its resourceVersion stays unchanged.
    pub(crate) fn unsaved(object: O) -> Self {
        Self::shown(object, 0)
    }

    /// Decodes the bytes of [`encode`].
    #[cfg(test)]
    pub(crate) fn decode(stored: &KeyValue) -> Result<Self, ApiError> {
        let object = serde_json::from_slice(&stored.value).map_err(|source| {
            ApiError::internal(format!("decoding the stored object {}", stored.key), source)
        })?;
        Ok(Self::read(object, stored, false))
    }

    /// Returns the revision that last changed it.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the stored size in bytes; 0 when it was not read from the store.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns true when it is stored in another version of the kind than new writes are.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Returns its JSON.
    pub(crate) fn json(&self) -> Result<Bytes, ApiError> {
        if let Some(json) = self.json.get() {
            return Ok(json.clone());
        }
        let json = to_json(&self.object)?;
        Ok(self.json.get_or_init(|| json).clone())
    }

    /// Returns the object itself.
    pub fn into_object(self) -> O {
        self.object
    }
}

impl<O> Deref for Stored<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.object
    }
}

/// Returns the object of a shared [`Stored`], copied only when others hold it too.
pub(crate) fn unshare<O: Object>(stored: Arc<Stored<O>>) -> O {
    Arc::try_unwrap(stored).map_or_else(|shared| shared.object.clone(), Stored::into_object)
}

/// Returns the bytes to store: the JSON without the resourceVersion, which the store itself knows.
pub(crate) fn encode<O: Object>(object: &mut O) -> Result<Bytes, ApiError> {
    let version = object.meta_mut().resource_version.take();
    let json = to_json(object);
    object.meta_mut().resource_version = version;
    json
}

/// Returns the JSON of an object as a value.
pub(crate) fn to_value<O: Object>(object: &O) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(|source| {
        ApiError::internal(format!("encoding {}", object.meta().name.as_deref().unwrap_or_default()), source)
    })
}

fn to_json<O: Object>(object: &O) -> Result<Bytes, ApiError> {
    let json = serde_json::to_vec(object).map_err(|source| {
        ApiError::internal(format!("encoding {}", object.meta().name.as_deref().unwrap_or_default()), source)
    })?;
    // Without the room to grow: the cache keeps it.
    Ok(Bytes::from(json.into_boxed_slice()))
}
