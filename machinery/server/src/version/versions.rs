//! All versions of a kind.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use machinery_schema::Schema;
use machinery_storage::KeyValue;
use serde_json::Value;

use super::{KindVersion, ServedVersion, stored_version::stored_version, typed::Typed};
use crate::{
    ApiError, Object, ObjectConverter,
    stored::{Stored, encode},
};

/// The versions of a kind. The first is the hub.
pub(crate) struct Versions<O> {
    all: Vec<Arc<dyn KindVersion<O>>>,
    /// The `apiVersion` of each.
    names: Vec<String>,
    /// Place in `all` of the version in which objects are stored.
    stored: usize,
}

impl<O: Object> Versions<O> {
    /// The hub, and the others that a strategy has. `stored` names the version of the store, which is the hub
    /// for none. No server is built when that version is not served.
    pub(crate) fn new(others: Vec<ServedVersion<O>>, stored: Option<&str>) -> Self {
        let hub: Arc<dyn KindVersion<O>> = Arc::new(Typed::<O, O>::new());
        let all: Vec<_> = std::iter::once(hub).chain(others.into_iter().map(|other| other.0)).collect();
        let is_stored = |version: &Arc<dyn KindVersion<O>>| Some(version.name().version.as_str()) == stored;
        let stored = all.iter().position(is_stored).unwrap_or_default();
        let names = all.iter().map(|version| version.name().api_version()).collect();
        Self { all, names, stored }
    }

    /// Returns all versions, the hub first.
    pub(crate) fn all(&self) -> &[Arc<dyn KindVersion<O>>] {
        &self.all
    }

    /// Returns the version of that name, such as `v1`; the hub when there is none.
    pub(crate) fn of(&self, version: &str) -> &dyn KindVersion<O> {
        let found = self.all.iter().find(|one| one.name().version == version);
        found.or_else(|| self.all.first()).map_or_else(|| unreachable!("the hub"), |version| &**version)
    }

    /// Returns the version in which objects are stored.
    pub(crate) fn stored(&self) -> &dyn KindVersion<O> {
        self.all.get(self.stored).map_or_else(|| self.of(""), |version| &**version)
    }

    /// Reads an object of the store, whatever its version.
    ///
    /// # Errors
    ///
    /// It does not fit its version, or its version is not served.
    pub(crate) fn read(&self, found: &KeyValue) -> Result<Stored<O>, ApiError> {
        let failed = |source| ApiError::internal(format!("decoding the stored object {}", found.key), source);
        let written_in = stored_version(&found.value).map_err(failed)?;
        let at = self.names.iter().position(|version| *version == written_in);
        let Some((at, version)) = at.and_then(|at| Some((at, self.all.get(at)?))) else {
            let why = format!("it is in version {written_in}, which is not served");
            return Err(ApiError::internal(format!("decoding the stored object {}", found.key), why));
        };
        let object = version.decode_stored(&found.value).map_err(failed)?;
        Ok(Stored::read(object, found, at != self.stored))
    }

    /// Returns the bytes to store: the JSON of the stored version without the resourceVersion, which the
    /// store itself knows.
    pub(crate) fn encode(&self, object: &mut O) -> Result<Bytes, ApiError> {
        if self.all.len() == 1 {
            return encode(object);
        }
        let failed = |source| ApiError::internal("encoding the object to store", source);
        let version = self.stored();
        let mut value = version.to_value(object).map_err(failed)?;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        // Whatever the conversion says: the bytes must be read as what they are.
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".to_owned(), version.name().api_version().into());
        }
        serde_json::to_vec(&value).map(Bytes::from).map_err(failed)
    }

    fn named(&self, api_version: &str) -> Option<&dyn KindVersion<O>> {
        self.all.iter().find(|one| one.name().api_version() == api_version).map(|version| &**version)
    }
}

impl<O> fmt::Debug for Versions<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

impl<O: Object> ObjectConverter for Versions<O> {
    fn versions(&self) -> Vec<&str> {
        self.all.iter().map(|version| version.name().version.as_str()).collect()
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ApiError> {
        let served = |wanted: &str| {
            let found = self.all.iter().find(|one| one.name().version == wanted);
            found.ok_or_else(|| ApiError::internal(format!("converting {from} to {to}"), "no such version"))
        };
        let (source, target) = (served(from)?, served(to)?);
        let hub = source.decode_value(object.clone());
        let converted = hub.and_then(|hub| target.to_value(&hub));
        converted.map_err(|error| ApiError::internal(format!("converting {from} to {to}"), error))
    }
}

impl<O: Object> machinery_apply::Versions for Versions<O> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        Some(self.named(api_version)?.structure().ok()?.shape())
    }

    fn convert(&self, document: &Value, whole: &Value, from: &str, to: &str) -> Result<Value, String> {
        let unserved = |version| format!("version {version} is not served");
        let from = self.named(from).ok_or_else(|| unserved(from))?;
        let to = self.named(to).ok_or_else(|| unserved(to))?;
        let structure = from.structure().map_err(|error| error.to_string())?;
        let mut document = document.clone();
        structure.complete(&mut document, whole);
        let object = from.decode_value(document).map_err(|error| error.to_string())?;
        to.to_value(&object).map_err(|error| error.to_string())
    }
}
