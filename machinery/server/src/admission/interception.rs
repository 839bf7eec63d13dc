//! Seam for admission plugins, such as webhooks, policies and quota.
//!
//! Source of the order: the handlers in `k8s.io/apiserver/pkg/endpoints/handlers`. A mutation sees the object
//! after decoding, defaults and the record of ownership; nobody owns what a plugin changes. The hooks of the
//! strategy run after it, so a plugin cannot change what they protect. The validation sees the object as it
//! would be stored.

use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::Value;

use crate::{ApiError, RequestContext};

/// Write that admission decides on.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionAttributes<'a> {
    /// Context of the request: user, operation, namespace, subresource, dry run, warnings.
    pub context: &'a RequestContext,
    /// API group of the resource.
    pub group: &'a str,
    /// Version of the request.
    pub version: &'a str,
    /// Other versions of the kind; `None` when the object has one version.
    pub converter: Option<&'a dyn ObjectConverter>,
    /// Plural of the resource, such as `evacuations`.
    pub resource: &'a str,
    /// Kind of the object: that of the body for a subresource with a kind of its own.
    pub kind: &'a str,
    /// Group and version of the kind, if they are not those of the resource.
    pub kind_version: Option<(&'a str, &'a str)>,
    /// Name of the object; empty when it is not known yet.
    pub name: &'a str,
    /// Options of the request, in the form that a webhook receives.
    pub options: Option<&'a Value>,
}

/// Versions in which a kind is served, for rules that match any of them (`matchPolicy: Equivalent`).
pub trait ObjectConverter: Debug + Send + Sync {
    /// Returns the names of the versions, such as `v1`, with that of the request.
    fn versions(&self) -> Vec<&str>;

    /// Converts an object of the kind from one version to another.
    ///
    /// # Errors
    ///
    /// A version is not served, or the value is no object of its version.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ApiError>;
}

/// Object that a mutation can replace.
pub trait MutableObject: Send {
    /// Returns the object as JSON.
    fn value(&self) -> &Value;

    /// Replaces the object. Fields that the kind does not have are dropped, defaults are set, and the fields
    /// of the metadata that belong to the server stay as they were.
    ///
    /// # Errors
    ///
    /// `Invalid` when the value is no object of the kind.
    fn replace(&mut self, value: Value) -> Result<(), ApiError>;
}

/// Admission of writes by plugins. The server has its own checks of namespaces besides.
pub trait Admission: Send + Sync + 'static {
    /// Returns true once the configuration was read, for `/readyz`.
    fn has_synced(&self) -> bool {
        true
    }

    /// Returns the plugins that intercept a write, by one state of the configuration; `None` when there are
    /// none. It is called for every write: it does not wait, and holds no lock for long.
    fn intercept(&self, attributes: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>>;
}

/// Plugins that intercept one write. A write that is repeated after a conflict uses the same ones.
#[async_trait]
pub trait Interception: Send + Sync {
    /// Returns true when [`Interception::mutate`] has something to do.
    fn mutates(&self) -> bool;

    /// Changes or refuses the object before the hooks of the strategy. `object` is absent for a deletion,
    /// `old` for a creation.
    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        old: Option<&Value>,
    ) -> Result<(), ApiError>;

    /// Returns true when [`Interception::validate`] has something to do.
    fn validates(&self) -> bool;

    /// Refuses the object as it would be stored. `object` is absent for a deletion, `old` for a creation.
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError>;
}
