//! Versions of a kind: its forms on the wire and in the store.
//!
//! [`Strategy::Object`](crate::Strategy::Object) is the hub: the rules of the kind see only this form. Every
//! other version is a type of its own that is converted to the hub and back.

mod stored_version;
mod typed;
mod versions;

use std::{borrow::Cow, sync::Arc};

use machinery_openapi::Structure;
use schemars::Schema;
use serde_json::Value;

use self::typed::Typed;
pub(crate) use self::{stored_version::stored_version, versions::Versions};
use crate::{
    ApiError, Object, RequestContext,
    cache::Entry,
    item::{DecodedItem, Item},
    resource::{Body, Patch},
    resource_name::ResourceName,
    stored::Stored,
};

/// Version of a kind that is served besides the hub, for [`Strategy::versions`](crate::Strategy::versions).
pub struct ServedVersion<O>(Arc<dyn KindVersion<O>>);

impl<O: Object> ServedVersion<O> {
    /// The version whose objects have the type `V`.
    ///
    /// Conversions set `apiVersion` and carry the metadata. What one version cannot say must survive the way
    /// through it, for example as an annotation: an object that is read and written in `V` passes both
    /// conversions. They cannot fail, because a stored object must be readable in every version.
    pub fn of<V>() -> Self
    where
        V: Object + From<O>,
        O: From<V>,
    {
        Self(Arc::new(Typed::<O, V>::new()))
    }
}

/// One version of a kind with the hub `O`.
pub(crate) trait KindVersion<O>: Send + Sync {
    fn name(&self) -> &ResourceName;

    fn schema(&self) -> Schema;

    /// Returns the structural schema.
    fn structure(&self) -> Result<&Structure, ApiError>;

    /// Reads an object in a request body.
    fn decode(&self, context: &RequestContext, body: &Body) -> Result<O, ApiError>;

    /// Applies a patch to an object as this version shows it.
    fn patch(&self, context: &RequestContext, patch: &Patch, old: &Stored<O>) -> Result<O, ApiError>;

    /// Reads the result of a server-side apply.
    fn decode_merged(&self, context: &RequestContext, merged: Value) -> Result<O, ApiError>;

    /// Reads stored bytes.
    fn decode_stored(&self, bytes: &[u8]) -> Result<O, serde_json::Error>;

    /// Reads a document that was of this version before.
    fn decode_value(&self, value: Value) -> Result<O, serde_json::Error>;

    /// Returns an object as this version shows it.
    fn to_value(&self, object: &O) -> Result<Value, serde_json::Error>;

    /// Returns a stored object as this version shows it.
    fn show(&self, stored: &Arc<Stored<O>>) -> Arc<dyn Item>;

    /// Returns an object of the cache as this version shows it.
    fn show_entry(&self, entry: &Arc<Entry<O>>) -> Result<Arc<dyn Item>, ApiError>;

    /// Returns the object of an item of this version.
    fn hub<'i>(&self, item: &'i dyn DecodedItem) -> Option<Cow<'i, O>>
    where
        O: Clone;
}
