//! Interface between HTTP and the kinds: verbs with bytes in and items out, independent of the type.

mod applied;
mod body;
mod patch;
mod posted;
mod scale;
mod stored;
mod typed;
mod view;

use std::sync::Arc;

use async_trait::async_trait;
use schemars::Schema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    applied::Applied,
    body::{Body, Syntax, decode_merged},
    patch::{Patch, PatchKind, check_name},
    posted::{Posted, PostedAction},
    stored::StoredResource,
    typed::{decode_typed_value, patch_typed},
    view::ViewResource,
};
use crate::{
    Admission, ApiError, Column, DeleteContext, DeleteOptions, KindInfo, Reason, RequestContext, Verb,
    item::{DecodedItem, Item},
    registry::{Listed, Part, Selection, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
};

/// Query of a list, a watch or the deletion of a collection. The namespace is the context's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query<V> {
    /// State that it shows.
    pub(crate) version: V,
    /// Selection of objects.
    pub(crate) selection: Selection,
    /// Maximum number of objects; 0 for all.
    pub(crate) limit: usize,
    /// True when objects that cannot be read are left out; otherwise one of them fails the request.
    pub(crate) skips_unreadable: bool,
}

/// State that a single read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GetVersion {
    /// The newest state.
    Newest,
    /// The state of a revision or a later one; 0 for the cached state.
    AtLeast(i64),
}

/// Outcome of a deletion.
pub(crate) struct Deleted {
    pub(crate) item: Arc<dyn Item>,
    /// True when the object is gone, false when it waits for its finalizers.
    pub(crate) removed: bool,
}

/// A kind, as it is served.
///
/// A verb that the kind does not have fails with [`method_not_allowed`]. It is not called: callers check
/// [`Resource::verbs`] first.
#[async_trait]
pub(crate) trait Resource: Send + Sync {
    fn name(&self) -> &ResourceName;
    fn info(&self) -> KindInfo;
    fn verbs(&self) -> &'static [Verb];
    fn has_status(&self) -> bool;
    fn schema(&self) -> Schema;
    /// Returns true when `fieldSelector` supports that field.
    fn is_selectable(&self, field: &str) -> bool;
    fn columns(&self) -> &'static [Column];
    /// Returns the table cells of an item of this kind.
    fn cells(&self, item: &dyn DecodedItem) -> Vec<Value>;
    /// Returns true when the schema of the kind has merge keys for strategic merge patches.
    fn merges_strategically(&self) -> bool {
        false
    }
    /// Returns the subresource `scale`, if the kind has one.
    fn scale(&self) -> Option<Arc<dyn Resource>> {
        None
    }
    /// Sets the admission plugins of writes.
    fn set_admission(&self, _admission: &Arc<dyn Admission>) {}
    /// Starts the background work, which runs until `shutdown`.
    fn start(&self, shutdown: &CancellationToken);
    /// Returns true when lists and watches show the current state.
    fn keeps_up(&self) -> bool;
    /// Returns true for a view: a projection of stored objects, for many callers with no other rights.
    fn is_view(&self) -> bool {
        false
    }
    /// Returns true when discovery has the verb `list`, if the resource has it.
    fn lists_in_discovery(&self) -> bool {
        true
    }
    /// Returns the version in which objects are stored; `None` for a view, which stores nothing.
    fn stored_version(&self) -> Option<String>;
    /// Returns the usage of the storage; `None` for a view, and for all versions of a kind but the hub.
    fn usage(&self) -> Option<StorageUsage>;

    /// Checks that its store answers.
    async fn ready(&self) -> Result<(), ApiError>;

    async fn get(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        version: GetVersion,
    ) -> Result<Arc<dyn Item>, ApiError>;

    async fn list(&self, context: &Arc<RequestContext>, query: Query<Version>) -> Result<Listed, ApiError>;

    async fn watch(
        &self,
        context: &Arc<RequestContext>,
        query: Query<WatchFrom>,
    ) -> Result<Box<dyn Watching>, ApiError>;

    async fn create(&self, _context: &Arc<RequestContext>, _body: &Body) -> Result<Arc<dyn Item>, ApiError> {
        Err(method_not_allowed())
    }

    async fn update(
        &self,
        _context: &Arc<RequestContext>,
        _name: &str,
        _part: Part,
        _body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Err(method_not_allowed())
    }

    async fn patch(
        &self,
        _context: &Arc<RequestContext>,
        _name: &str,
        _part: Part,
        _patch: Patch,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Err(method_not_allowed())
    }

    /// Applies a configuration to an object that exists.
    async fn apply(
        &self,
        _context: &Arc<RequestContext>,
        _name: &str,
        _part: Part,
        _applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Err(method_not_allowed())
    }

    /// Creates an object from an applied configuration.
    async fn apply_new(
        &self,
        _context: &Arc<RequestContext>,
        _name: &str,
        _applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Err(method_not_allowed())
    }

    async fn delete(
        &self,
        _context: &Arc<RequestContext>,
        _name: &str,
        _options: DeleteOptions,
        _delete: DeleteContext,
    ) -> Result<Deleted, ApiError> {
        Err(method_not_allowed())
    }

    /// Removes an object that cannot be decoded.
    async fn delete_undecodable(&self, _context: &Arc<RequestContext>, _name: &str) -> Result<(), ApiError> {
        Err(method_not_allowed())
    }
}

/// Returns the error for a verb that a resource does not have.
pub(crate) fn method_not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    ApiError::status(Reason::MethodNotAllowed, message)
}
