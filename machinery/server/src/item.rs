//! Items: objects of any kind, as replies show them.

use std::{any::Any, sync::Arc};

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{ApiError, Object, stored::Stored};

/// Object of any kind, for rendering. It need not be decoded.
pub(crate) trait Item: Send + Sync {
    /// Returns the name of the object.
    fn name(&self) -> &str;

    /// Returns its JSON.
    fn json(&self) -> Result<Bytes, ApiError>;

    /// Returns a number that no other item has; `None` for an item that belongs to one request.
    fn identity(&self) -> Option<u64> {
        None
    }

    /// Returns the decoded object.
    fn decoded(self: Arc<Self>) -> Result<Arc<dyn DecodedItem>, ApiError>;

    /// Returns the JSON of its metadata.
    fn metadata_json(&self) -> Result<Bytes, ApiError> {
        let json = self.json()?;
        let metadata = metadata_of(&json)
            .map_err(|source| ApiError::internal(format!("encoding {}", self.name()), source))?;
        Ok(json.slice_ref(metadata.get().as_bytes()))
    }
}

/// Decoded object of any kind, for rendering.
pub(crate) trait DecodedItem: Any + Send + Sync {
    /// Returns its metadata.
    fn metadata(&self) -> &ObjectMeta;
}

impl<O: Object> Item for Stored<O> {
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn json(&self) -> Result<Bytes, ApiError> {
        Stored::json(self)
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<dyn DecodedItem>, ApiError> {
        Ok(self)
    }
}

impl<O: Object> DecodedItem for Stored<O> {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

/// Returns the object of an item, if it is of that kind.
pub(crate) fn object_of<O: Object>(item: &dyn DecodedItem) -> Option<&O> {
    let item: &dyn Any = item;
    item.downcast_ref::<Stored<O>>().map(|stored| &**stored)
}

/// Returns the part of the JSON of an object that is its metadata.
fn metadata_of(json: &[u8]) -> Result<&RawValue, serde_json::Error> {
    #[derive(Deserialize)]
    struct WithMetadata<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }

    Ok(serde_json::from_slice::<WithMetadata<'_>>(json)?.metadata)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_metadata_is_cut_out_of_the_json() {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.labels = Some([("text".to_owned(), "\"}{\\".to_owned())].into());
        let metadata = Stored::new(object, 7).metadata_json().expect("metadata");
        let metadata: Value = serde_json::from_slice(&metadata).expect("JSON");
        assert_eq!(metadata, json!({"name": "a", "labels": {"text": "\"}{\\"}, "resourceVersion": "7"}));
    }
}
