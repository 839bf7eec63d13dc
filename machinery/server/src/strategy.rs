//! The rules of one stored kind, in the hooks that k8s.io/apiserver has.

use async_trait::async_trait;
use machinery_validation::FieldError;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{ApiError, RequestContext};

/// A kind that can be stored and served: a Kubernetes object with metadata and a JSON schema.
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

/// How a kind is named and found. Group, version, kind and plural come from its `kube::Resource`.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The singular name, such as `evacuation`.
    pub singular: &'static str,
    /// Short names, such as `evac`.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
}

/// What can be done with a resource.
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

/// A column of the server-side Table: `metav1.TableColumnDefinition`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading, such as `State`.
    pub name: &'static str,
    /// `string`, `integer`, `date`, ...
    pub column_type: &'static str,
    /// `name` for the object's name, else empty.
    pub format: &'static str,
    /// What the column says.
    pub description: &'static str,
    /// 0 for always, 1 for `-o wide`.
    pub priority: i32,
}

/// A claim that could not be taken, because another object holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimConflict {
    /// The claim, as [`Strategy::claims`] named it.
    pub claim: String,
    /// The namespace of the object that holds it; empty for cluster-scoped objects.
    pub holder_namespace: String,
    /// The name of the object that holds it.
    pub holder_name: String,
}

/// What a strategy is told of a deletion.
#[derive(Clone, Copy, Debug)]
pub struct DeleteContext {
    /// Whether the object's namespace is terminating.
    pub namespace_terminating: bool,
}

/// The rules of one stored kind.
///
/// # Flow
///
/// Create: decode, `default`, `prepare_for_create`, `validate`, `admit_create`, then one transaction that writes
/// the object and its claims. Update and patch: read, decode, `default`, `prepare_for_update` (or
/// `prepare_for_status_update`), `validate_update`, `admit_update`, then one transaction guarded by the
/// resourceVersion that was read; a patch or an update without resourceVersion starts again when that failed.
/// Delete: read, `prepare_for_delete`; then, when finalizers are left, the object is written with a
/// `deletionTimestamp`, else removed; in either case its claims are adjusted in the same transaction.
///
/// # Claims
///
/// A claim is a key that at most one object of the kind can hold, such as "the active Evacuation of this pod". The
/// registry compares the claims of an object before and after a write and takes and releases them in
/// the transaction that writes the object, so that uniqueness holds whatever else goes on.
#[async_trait]
pub trait Strategy: Send + Sync + 'static {
    /// The kind.
    type Object: Object;

    /// How the kind is named and found.
    fn info(&self) -> KindInfo;

    /// What callers can do with the kind.
    fn verbs(&self) -> &'static [Verb] {
        use Verb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
        &[Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch]
    }

    /// Whether the kind has a `status` subresource.
    fn has_status(&self) -> bool {
        true
    }

    /// Fills in what the schema's defaults say.
    fn default(&self, _object: &mut Self::Object) {}

    /// Clears what callers may not set on creation, such as the status, and sets what the server owns.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut Self::Object);

    /// What is wrong with a new object, all of it. Name, namespace and labels were validated before.
    fn validate(&self, context: &RequestContext, object: &Self::Object) -> Vec<FieldError>;

    /// The last word on a creation, with I/O: further authorisation, other objects. May still change the object.
    async fn admit_create(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Restores what an update may not touch, such as the status, and sets what the server owns.
    fn prepare_for_update(
        &self,
        context: &RequestContext,
        object: &mut Self::Object,
        old: &Self::Object,
    ) -> Result<(), ApiError>;

    /// What is wrong with the change, all of it.
    fn validate_update(
        &self,
        context: &RequestContext,
        object: &Self::Object,
        old: &Self::Object,
    ) -> Vec<FieldError>;

    /// The last word on an update, with I/O.
    async fn admit_update(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
        _old: &Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Restores all but the status of an update of the status, and sets what the server owns of it.
    fn prepare_for_status_update(
        &self,
        _context: &RequestContext,
        _object: &mut Self::Object,
        _old: &Self::Object,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// What is wrong with a change of the status, all of it.
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

    /// Whether the caller may use the reserve of the kind's limits, because it acts for all namespaces. Asked only when the rest is used up.
    async fn may_use_reserve(&self, _context: &RequestContext) -> Result<bool, ApiError> {
        Ok(false)
    }

    /// What the object lays claim to. Short, and without `/`.
    fn claims(&self, _object: &Self::Object) -> Vec<String> {
        Vec::new()
    }

    /// What to answer when a claim is taken.
    fn claim_conflict(&self, object: &Self::Object, conflict: &ClaimConflict) -> ApiError {
        let _ = object;
        ApiError::status(
            crate::Reason::Conflict,
            format!("{} is claimed by {}", conflict.claim, conflict.holder_name),
        )
        .with_cause("Claimed", conflict.holder_name.clone())
    }

    /// Fields that `fieldSelector` can select by, besides `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The value of a selectable field.
    fn field(&self, _object: &Self::Object, _field: &str) -> String {
        String::new()
    }

    /// The columns of the server-side Table after the name and before the age.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// The cells of [`Strategy::columns`], in their order.
    fn cells(&self, _object: &Self::Object) -> Vec<serde_json::Value> {
        Vec::new()
    }
}
