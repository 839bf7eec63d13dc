//! Strategies: the rules of one stored kind, in the hooks of k8s.io/apiserver.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use machinery_validation::FieldError;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{ApiError, RequestContext, ScalePaths, ServedVersion};

/// A kind that can be stored and served: a Kubernetes object with metadata and a JSON schema.
///
/// Bounds, patterns and unique entries of the schema are checked on every write. A pattern is a regular
/// expression of the crate `regex`; [`Structure::new`](machinery_openapi::Structure::new) says how these
/// differ from upstream's. A server with an invalid keyword in a schema is not built.
pub trait Object:
    kube::Resource<DynamicType = ()>
    + Serialize
    + DeserializeOwned
    + JsonSchema
    + Clone
    + PartialEq
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<T> Object for T where
    T: kube::Resource<DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + JsonSchema
        + Clone
        + PartialEq
        + std::fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// Names of a kind. Group, version, kind and plural come from its `kube::Resource`.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// True when objects live in namespaces.
    pub namespaced: bool,
    /// Singular name, such as `evacuation`.
    pub singular: &'static str,
    /// Short names, such as `evac`.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
}

/// Verb of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// POST.
    Create,
    /// GET of one.
    Get,
    /// GET of many.
    List,
    /// GET of many with `watch=true`.
    Watch,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one.
    Delete,
    /// DELETE of many.
    DeleteCollection,
}

/// Column of the server-side Table: `metav1.TableColumnDefinition`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading, such as `State`.
    pub name: &'static str,
    /// `string`, `integer`, `date`, ...
    pub column_type: &'static str,
    /// `name` for the object's name, else empty.
    pub format: &'static str,
    /// Description of the column.
    pub description: &'static str,
    /// 0 for always, 1 for `-o wide`.
    pub priority: i32,
}

/// Claim that could not be taken, because another object holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimConflict {
    /// Claim, as [`Strategy::claims`] named it.
    pub claim: String,
    /// Namespace of the object that holds it; empty for cluster-scoped objects.
    pub holder_namespace: String,
    /// Name of the object that holds it.
    pub holder_name: String,
    /// True when the server cannot read that object, so that its claim is believed.
    pub is_holder_unreadable: bool,
}

/// Context of a deletion.
#[derive(Clone, Copy, Debug)]
pub struct DeleteContext {
    /// True when the namespace of the object is terminating.
    pub namespace_terminating: bool,
}

/// An object whose work is done. It gives way to a write for which a limit of the kind leaves no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removable {
    /// Flow of the users behind the object, such as [`machinery_auth::flow`] of its maker. The flow with the
    /// most removable objects in a namespace gives way first.
    pub flow: String,
    /// Time from which the object may be removed.
    pub from: DateTime<Utc>,
    /// Time until which the object is of use. Of the objects of a flow, the earliest gives way first.
    pub of_use_until: DateTime<Utc>,
}

/// Rules of one stored kind.
///
/// # Flow
///
/// Create: decode, `default`, record the ownership of fields, mutating admission, `prepare_for_create`,
/// `validate`, `admit_create`, validating admission, then one transaction that writes the object and its
/// claims. Update and patch: read, decode, `default`, record the ownership, mutating admission,
/// `prepare_for_update` (or `prepare_for_status_update`), `validate_update`, `admit_update`, validating
/// admission, then one transaction guarded by the resourceVersion that was read; a patch or an update without
/// resourceVersion starts again when that failed. In these hooks the new object has the resourceVersion that
/// the caller insists on, and none where the caller named none. Delete: read, `prepare_for_delete`,
/// admission; then, when finalizers are left, the object is written with a `deletionTimestamp`, else removed;
/// in either case its claims are adjusted in the same transaction.
///
/// # Claims
///
/// A claim is a key that at most one object of the kind can hold, such as "the active Evacuation of this
/// pod". The registry compares the claims of an object before and after a write and takes and releases them
/// in the transaction that writes the object, so that uniqueness holds under concurrent writes.
#[async_trait]
pub trait Strategy: Send + Sync + 'static {
    /// Type of the kind.
    type Object: Object;

    /// Returns the names of the kind.
    fn info(&self) -> KindInfo;

    /// Returns the verbs of the kind.
    fn verbs(&self) -> &'static [Verb] {
        use Verb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
        &[Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch]
    }

    /// Returns the versions that are served besides the hub, which is `Object`. Group, kind and plural are
    /// the hub's. Every hook sees the hub, and so do limits, claims, selectors and columns.
    fn versions(&self) -> Vec<ServedVersion<Self::Object>> {
        Vec::new()
    }

    /// Returns the version in which objects are stored, such as `v1`; that of the hub by default. Objects of
    /// other versions in the store are read, and rewritten by the next write, even if it changes nothing.
    fn stored_version(&self) -> Option<&'static str> {
        None
    }

    /// Returns true when the kind has a `status` subresource.
    fn has_status(&self) -> bool {
        true
    }

    /// Returns the paths of the subresource `scale` in a version, such as `v1`; `None` for a version without
    /// it.
    fn scale(&self, _version: &str) -> Option<ScalePaths> {
        None
    }

    /// Sets the defaults of the schema, and those that name the caller. The caller owns them.
    fn default(&self, _context: &RequestContext, _object: &mut Self::Object) {}

    /// Fills in the keys of list entries that depend on the caller, in a part of the object of that name, and
    /// refuses a part that the caller may not write. The part is a configuration that it applies, or a
    /// strategic merge patch. It is in the version of the request and has any shape: it is not checked yet.
    async fn complete_partial(
        &self,
        _context: &RequestContext,
        _name: &str,
        _part: &mut serde_json::Value,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Puts back what an apply has removed by the rules of ownership, and its caller may not remove.
    fn complete_merged(&self, _context: &RequestContext, _object: &mut Self::Object, _old: &Self::Object) {}

    /// Clears what callers may not set on creation, such as the status, and sets the server-owned fields.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut Self::Object);

    /// Returns all problems of a new object. Name, namespace and labels were validated before.
    fn validate(&self, context: &RequestContext, object: &Self::Object) -> Vec<FieldError>;

    /// Decides on a creation last, with I/O: further authorisation, other objects. It may change the object.
    async fn admit_create(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Restores the fields that an update may not change, such as the status, and sets the server-owned
    /// fields.
    fn prepare_for_update(
        &self,
        context: &RequestContext,
        object: &mut Self::Object,
        old: &Self::Object,
    ) -> Result<(), ApiError>;

    /// Returns all problems of the change.
    fn validate_update(
        &self,
        context: &RequestContext,
        object: &Self::Object,
        old: &Self::Object,
    ) -> Vec<FieldError>;

    /// Decides on an update last, with I/O.
    async fn admit_update(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
        _old: &Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Restores all except the status in an update of the status, and sets its server-owned fields.
    fn prepare_for_status_update(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
        _old: &Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Returns all problems of a change of the status.
    fn validate_status_update(
        &self,
        _context: &RequestContext,
        _object: &Self::Object,
        _old: &Self::Object,
    ) -> Vec<FieldError> {
        Vec::new()
    }

    /// Authorises a deletion and brings the object into the state in which it is deleted, with or without
    /// finalizers.
    async fn prepare_for_delete(
        &self,
        _context: &RequestContext,
        _delete: DeleteContext,
        _object: &mut Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Returns true when the write may use the reserve of the kind's limits, because the users behind it act
    /// for all namespaces. It is called only when the rest is used up. `old` is absent for a creation.
    async fn may_use_reserve(
        &self,
        _context: &RequestContext,
        _object: &Self::Object,
        _old: Option<&Self::Object>,
    ) -> Result<bool, ApiError> {
        Ok(false)
    }

    /// Returns the user in whose share of the kind's limits the object counts: a quarter of the objects and
    /// bytes of its namespace, or of all objects of a cluster-scoped kind. `None` for a kind without shares.
    fn shared_by(&self, _object: &Self::Object) -> Option<String> {
        None
    }

    /// Returns when an object gives way to a write for which a limit leaves no room; `None` for one that
    /// stays. Objects with finalizers stay, too, but count in their flow. The server removes the object
    /// without [`Strategy::prepare_for_delete`] and without admission: the caller did not choose it.
    fn removable(&self, _object: &Self::Object) -> Option<Removable> {
        None
    }

    /// Returns the users whose list entries a record of ownership names, read off the fields of the record
    /// (`fieldsV1`). The records of one user's applies take a quarter of the room at most, and no other user
    /// writes them. `None` for a kind whose list entries belong to nobody.
    fn entry_owners(&self, _fields: &serde_json::Value) -> Option<BTreeSet<String>> {
        None
    }

    /// Returns the object that stands for one that cannot be read, in the lists and watches of callers that
    /// skip such objects. The server fills in its namespace and name. With `None` the object is left out.
    /// A kind whose absence would allow something returns the strictest object that there could be.
    fn stand_in(&self, _namespace: &str, _name: &str) -> Option<Self::Object> {
        None
    }

    /// Returns the claims of the object. They are short, and contain no `/`.
    fn claims(&self, _object: &Self::Object) -> Vec<String> {
        Vec::new()
    }

    /// Returns the error for a claim that another object holds.
    fn claim_conflict(&self, object: &Self::Object, conflict: &ClaimConflict) -> ApiError {
        let _ = object;
        ApiError::status(
            crate::Reason::Conflict,
            format!("{} is claimed by {}", conflict.claim, conflict.holder_name),
        )
        .with_cause("Claimed", conflict.holder_name.clone())
    }

    /// Returns the fields that `fieldSelector` supports, besides `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the value of a selectable field.
    fn field(&self, _object: &Self::Object, _field: &str) -> String {
        String::new()
    }

    /// Returns the columns of the server-side Table after the name and before the age.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// Returns the cells of [`Strategy::columns`], in their order.
    fn cells(&self, _object: &Self::Object) -> Vec<serde_json::Value> {
        Vec::new()
    }
}
