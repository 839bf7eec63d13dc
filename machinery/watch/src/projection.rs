//! Objects of which only a part is kept when they are decoded.

use std::{borrow::Cow, fmt, marker::PhantomData};

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer};

/// The part of the objects of a kind that a process keeps.
///
/// A decoded object takes five to two hundred times the memory of its text. Its author decides how much. So a
/// cache keeps what its process reads, and each part that can repeat has a bound.
pub trait Projection<K> {
    /// Drops what is not kept.
    fn project(object: &mut K);
}

/// An object that was cut down while it was decoded.
///
/// # Guarantees
///
/// A page of a list of this type never holds more than one whole object in decoded form.
pub struct Projected<K, P> {
    object: K,
    projection: PhantomData<fn() -> P>,
}

impl<K, P> Projected<K, P> {
    /// Returns the part that is kept.
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K: Clone, P> Clone for Projected<K, P> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), projection: PhantomData }
    }
}

impl<K: fmt::Debug, P> fmt::Debug for Projected<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

impl<'de, K: Deserialize<'de>, P: Projection<K>> Deserialize<'de> for Projected<K, P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = K::deserialize(deserializer)?;
        P::project(&mut object);
        Ok(Self { object, projection: PhantomData })
    }
}

impl<K: Resource, P> Resource for Projected<K, P> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn api_version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::api_version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn url_path(dynamic: &Self::DynamicType, namespace: Option<&str>) -> String {
        K::url_path(dynamic, namespace)
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}
