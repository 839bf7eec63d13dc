//! A version that is a Rust type.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    marker::PhantomData,
    sync::Arc,
};

use machinery_openapi::Structure;
use schemars::Schema;
use serde_json::Value;

use super::KindVersion;
use crate::{
    ApiError, Object, RequestContext,
    cache::Entry,
    item::{DecodedItem, Item, object_of},
    resource::{Body, Patch, decode_merged},
    resource_name::ResourceName,
    stored::Stored,
    structure::{KindStructure, schema_of},
};

/// The version with the type `V`. The hub is the version with the type `O` itself.
pub(super) struct Typed<O, V> {
    name: ResourceName,
    structure: KindStructure,
    types: PhantomData<fn(V) -> O>,
}

impl<O: Object, V: Object> Typed<O, V> {
    pub(super) fn new() -> Self {
        let name = ResourceName { version: V::version(&()).into_owned(), ..ResourceName::of::<O>() };
        Self { name, structure: KindStructure::of::<V>(), types: PhantomData }
    }
}

/// Returns the same value as another type, when that is its type.
fn same<A: Any, B: Any>(value: &A) -> Option<&B> {
    (value as &dyn Any).downcast_ref()
}

fn is_same<A: Any, B: Any>() -> bool {
    TypeId::of::<A>() == TypeId::of::<B>()
}

impl<O, V> KindVersion<O> for Typed<O, V>
where
    O: Object + From<V>,
    V: Object + From<O>,
{
    fn name(&self) -> &ResourceName {
        &self.name
    }

    fn schema(&self) -> Schema {
        schema_of::<V>()
    }

    fn structure(&self) -> Result<&Structure, ApiError> {
        self.structure.get()
    }

    fn decode(&self, context: &RequestContext, body: &Body) -> Result<O, ApiError> {
        body.decode::<V>(context, self.structure()?).map(O::from)
    }

    fn patch(&self, context: &RequestContext, patch: &Patch, old: &Stored<O>) -> Result<O, ApiError> {
        let document = match same::<_, Stored<V>>(old) {
            Some(old) => serde_json::from_slice(&old.json()?),
            None => self.to_value(old),
        };
        let document =
            document.map_err(|source| ApiError::internal("decoding the object to patch", source))?;
        patch.apply::<V>(context, self.structure()?, &document).map(O::from)
    }

    fn decode_merged(&self, context: &RequestContext, merged: Value) -> Result<O, ApiError> {
        decode_merged::<V>(context, &self.name, self.structure()?, merged).map(O::from)
    }

    fn decode_stored(&self, bytes: &[u8]) -> Result<O, serde_json::Error> {
        serde_json::from_slice::<V>(bytes).map(O::from)
    }

    fn decode_value(&self, value: Value) -> Result<O, serde_json::Error> {
        serde_json::from_value::<V>(value).map(O::from)
    }

    fn to_value(&self, object: &O) -> Result<Value, serde_json::Error> {
        match same::<O, V>(object) {
            Some(object) => serde_json::to_value(object),
            None => serde_json::to_value(V::from(object.clone())),
        }
    }

    fn show(&self, stored: &Arc<Stored<O>>) -> Arc<dyn Item> {
        if is_same::<O, V>() {
            return stored.clone();
        }
        Arc::new(Stored::shown(V::from(O::clone(stored)), stored.revision()))
    }

    fn show_entry(&self, entry: &Arc<Entry<O>>) -> Result<Arc<dyn Item>, ApiError> {
        if is_same::<O, V>() {
            return Ok(entry.clone());
        }
        Ok(self.show(&entry.object()?))
    }

    fn hub<'i>(&self, item: &'i dyn DecodedItem) -> Option<Cow<'i, O>> {
        match object_of::<O>(item) {
            Some(object) => Some(Cow::Borrowed(object)),
            None => object_of::<V>(item).map(|object| Cow::Owned(O::from(object.clone()))),
        }
    }
}
