//! Stored kinds, as they are served.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::Schema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    Deleted, GetVersion, Query, Resource,
    applied::Applied,
    body::{Body, Patch, patching},
};
use crate::{
    ApiError, Column, DeleteContext, DeleteOptions, KindInfo, Reason, Registry, RequestContext, Strategy,
    Verb,
    registry::{Listed, Part, Selected, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
    stored::{Item, Stored, object_of},
    structure::schema_of,
};

/// A registry, as it is served.
pub(crate) struct StoredResource<S: Strategy>(pub(crate) Arc<Registry<S>>);

#[async_trait]
impl<S: Strategy> Resource for StoredResource<S> {
    fn name(&self) -> &ResourceName {
        self.0.resource()
    }

    fn info(&self) -> KindInfo {
        self.0.strategy().info()
    }

    fn verbs(&self) -> &'static [Verb] {
        self.0.strategy().verbs()
    }

    fn has_status(&self) -> bool {
        self.0.strategy().has_status()
    }

    fn schema(&self) -> Schema {
        schema_of::<S::Object>()
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.0.strategy().selectable_fields().contains(&field)
    }

    fn columns(&self) -> &'static [Column] {
        self.0.strategy().columns()
    }

    fn cells(&self, item: &dyn Item) -> Vec<Value> {
        object_of::<S::Object>(item).map(|object| self.0.strategy().cells(object)).unwrap_or_default()
    }

    fn start(&self, shutdown: &CancellationToken) {
        let (registry, shutdown) = (self.0.clone(), shutdown.clone());
        tokio::spawn(async move { registry.run(shutdown).await });
    }

    fn keeps_up(&self) -> bool {
        self.0.keeps_up()
    }

    fn usage(&self) -> Option<StorageUsage> {
        Some(self.0.usage())
    }

    async fn ready(&self) -> Result<(), ApiError> {
        self.0.ready().await
    }

    async fn get(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        version: GetVersion,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let stored = match version {
            GetVersion::Newest => self.0.get_stored(&context.namespace, name).await?,
            GetVersion::AtLeast(revision) => self.0.get_cached(&context.namespace, name, revision).await?,
        };
        Ok(stored)
    }

    async fn list(&self, context: &Arc<RequestContext>, query: Query<Version>) -> Result<Listed, ApiError> {
        let scope = self.0.scope(&context.namespace, query.selection.name());
        let projection = Selected { registry: self.0.clone(), selection: query.selection };
        self.0.list_items(&scope, query.version, query.limit, &projection).await
    }

    async fn watch(
        &self,
        context: &Arc<RequestContext>,
        query: Query<WatchFrom>,
    ) -> Result<Box<dyn Watching>, ApiError> {
        let scope = self.0.scope(&context.namespace, query.selection.name());
        let projection = Selected { registry: self.0.clone(), selection: query.selection };
        self.0.watch_items(&scope, query.version, Box::new(projection)).await
    }

    async fn create(&self, context: &Arc<RequestContext>, body: &Body) -> Result<Arc<dyn Item>, ApiError> {
        let object = body.decode::<S::Object>(context, self.0.structure()?)?;
        Ok(self.0.create_stored(context, object).await?)
    }

    async fn update(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let object = match body.decode::<S::Object>(context, self.0.structure()?) {
            // As upstream, an object that does not exist is reported before what is wrong with the new one.
            Err(error @ ApiError::Invalid(_)) => {
                return Err(self.0.first_problem(context, name, body, error).await);
            }
            decoded => decoded?,
        };
        self.0.check_names(context, name, &object)?;
        let make = Box::new(move |_: &Stored<S::Object>| Ok(object.clone()));
        Ok(self.0.update_stored(context, name, part, make).await?.stored)
    }

    async fn patch(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        patch: Patch,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let make = patching(patch.clone(), context.clone(), self.0.structure()?.clone());
        match self.0.update_stored(context, name, part, make).await {
            // As upstream, a malformed patch is reported before an object that does not exist.
            Err(error) if error.reason() == Reason::NotFound => patch.check_syntax().and(Err(error)),
            result => Ok(result?.stored),
        }
    }

    async fn apply(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Ok(self.0.apply_stored(context, name, part, applied.clone()).await?.stored)
    }

    async fn apply_new(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Ok(self.0.create_applied(context, name, applied).await?)
    }

    async fn delete(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        options: DeleteOptions,
        delete: DeleteContext,
    ) -> Result<Deleted, ApiError> {
        let written = self.0.delete_stored(context, name, options, delete).await?;
        Ok(Deleted { item: written.stored, removed: written.removed })
    }

    async fn delete_undecodable(&self, context: &Arc<RequestContext>, name: &str) -> Result<(), ApiError> {
        self.0.delete_undecodable(context, name).await
    }
}
