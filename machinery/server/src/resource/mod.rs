//! What the HTTP side knows of a kind: the verbs with bytes in and items out, whatever the type behind them.

mod body;
mod posted;
mod stored;
mod view;

use std::sync::Arc;

use async_trait::async_trait;
use schemars::Schema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    body::{Body, Patch, PatchKind, Syntax},
    posted::{Posted, PostedAction},
    stored::StoredResource,
    view::ViewResource,
};
use crate::{
    ApiError, Column, DeleteContext, DeleteOptions, KindInfo, Reason, RequestContext, Verb,
    registry::{Listed, Part, Selection, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
    stored::Item,
};

/// What a list, a watch or the deletion of a collection is about. The namespace is the context's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query<V> {
    /// Which state.
    pub(crate) version: V,
    /// Which objects.
    pub(crate) selection: Selection,
    /// At most so many; 0 for all.
    pub(crate) limit: usize,
}

/// Which state a single read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GetVersion {
    /// The newest.
    Newest,
    /// That of a revision or a later one; 0 for whatever is at hand.
    AtLeast(i64),
}

/// What became of a deletion.
pub(crate) struct Deleted {
    pub(crate) item: Arc<dyn Item>,
    /// Whether the object is gone, or waits for its finalizers.
    pub(crate) removed: bool,
}

/// A kind, as it is served.
///
/// A verb that the kind does not have fails as [`method_not_allowed`]; it is not called, for [`Resource::verbs`] is asked first.
#[async_trait]
pub(crate) trait Resource: Send + Sync {
    fn name(&self) -> &ResourceName;
    fn info(&self) -> KindInfo;
    fn verbs(&self) -> &'static [Verb];
    fn has_status(&self) -> bool;
    fn schema(&self) -> Schema;
    /// Whether `fieldSelector` can select by it.
    fn is_selectable(&self, field: &str) -> bool;
    fn columns(&self) -> &'static [Column];
    /// The cells of an item of this kind.
    fn cells(&self, item: &dyn Item) -> Vec<Value>;
    /// What runs besides the requests, until `shutdown`.
    fn start(&self, shutdown: &CancellationToken);
    /// Whether lists and watches can be served, and show what is.
    fn keeps_up(&self) -> bool;
    /// Whether it shows parts of what is stored elsewhere, to many who may see no more.
    fn is_view(&self) -> bool {
        false
    }
    /// Whether discovery has the verb `list`, if the resource has it.
    fn lists_in_discovery(&self) -> bool {
        true
    }
    /// Usage of the storage; `None` for a view, which stores nothing.
    fn usage(&self) -> Option<StorageUsage>;

    /// Whether its store answers.
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

/// A verb that a resource does not have.
pub(crate) fn method_not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    ApiError::status(Reason::MethodNotAllowed, message)
}
