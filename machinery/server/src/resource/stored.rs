//! Stored kinds, as they are served.

use std::sync::Arc;

use async_trait::async_trait;
use machinery_openapi::Structure;
use schemars::Schema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    Deleted, GetVersion, Query, Resource, applied::Applied, body::Body, patch::Patch, scale::ScaleResource,
};
use crate::{
    Admission, ApiError, Column, DeleteContext, DeleteOptions, KindInfo, Reason, Registry, RequestContext,
    Strategy, Verb,
    cache::Scope,
    item::{DecodedItem, Item},
    registry::{Listed, Part, Selected, Selection, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
    stored::Stored,
    version::KindVersion,
};

/// A registry, as it is served in one version.
pub(crate) struct StoredResource<S: Strategy> {
    registry: Arc<Registry<S>>,
    version: Arc<dyn KindVersion<S::Object>>,
    /// True for the version that stands for the registry: it runs it and reports its state.
    is_hub: bool,
}

impl<S: Strategy> StoredResource<S> {
    /// Returns the resources of all versions of a registry.
    pub(crate) fn all(registry: &Arc<Registry<S>>) -> Vec<Arc<dyn Resource>> {
        let versions = registry.versions().all().iter().enumerate();
        let resource = |(at, version): (usize, &Arc<dyn KindVersion<S::Object>>)| -> Arc<dyn Resource> {
            Arc::new(Self { registry: registry.clone(), version: version.clone(), is_hub: at == 0 })
        };
        versions.map(resource).collect()
    }

    fn scope<V>(&self, context: &RequestContext, query: &Query<V>) -> Scope {
        let scope = self.registry.scope(&context.namespace, query.selection.name());
        scope.skipping_unreadable(query.skips_unreadable)
    }

    fn projection(&self, selection: Selection) -> Selected<S> {
        Selected { registry: self.registry.clone(), version: self.version.clone(), selection }
    }
}

#[async_trait]
impl<S: Strategy> Resource for StoredResource<S> {
    fn name(&self) -> &ResourceName {
        self.version.name()
    }

    fn info(&self) -> KindInfo {
        self.registry.strategy().info()
    }

    fn verbs(&self) -> &'static [Verb] {
        self.registry.strategy().verbs()
    }

    fn has_status(&self) -> bool {
        self.registry.strategy().has_status()
    }

    fn schema(&self) -> Schema {
        self.version.schema()
    }

    fn merges_strategically(&self) -> bool {
        self.version.structure().is_ok_and(Structure::merges_strategically)
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.registry.strategy().selectable_fields().contains(&field)
    }

    fn columns(&self) -> &'static [Column] {
        self.registry.strategy().columns()
    }

    fn cells(&self, item: &dyn DecodedItem) -> Vec<Value> {
        self.version.hub(item).map(|object| self.registry.strategy().cells(&object)).unwrap_or_default()
    }

    fn scale(&self) -> Option<Arc<dyn Resource>> {
        self.registry.strategy().scale(&self.name().version)?;
        Some(Arc::new(ScaleResource::new(self.registry.clone(), self.name())))
    }

    fn set_admission(&self, admission: &Arc<dyn Admission>) {
        self.registry.set_admission(admission.clone());
    }

    fn start(&self, shutdown: &CancellationToken) {
        if !self.is_hub {
            return;
        }
        let (registry, shutdown) = (self.registry.clone(), shutdown.clone());
        tokio::spawn(async move { registry.run(shutdown).await });
    }

    fn keeps_up(&self) -> bool {
        self.registry.keeps_up()
    }

    fn stored_version(&self) -> Option<String> {
        let wanted = self.registry.strategy().stored_version();
        let stored = || &self.registry.versions().stored().name().version;
        Some(wanted.map_or_else(|| stored().clone(), str::to_owned))
    }

    fn usage(&self) -> Option<StorageUsage> {
        self.is_hub.then(|| self.registry.usage())
    }

    async fn ready(&self) -> Result<(), ApiError> {
        self.registry.ready().await
    }

    async fn get(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        version: GetVersion,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let entry = match version {
            GetVersion::Newest => self.registry.get_newest(&context.namespace, name).await?,
            GetVersion::AtLeast(revision) => {
                self.registry.get_cached(&context.namespace, name, revision).await?
            }
        };
        self.version.show_entry(&entry)
    }

    async fn list(&self, context: &Arc<RequestContext>, query: Query<Version>) -> Result<Listed, ApiError> {
        let scope = self.scope(context, &query);
        let projection = self.projection(query.selection);
        self.registry.list_items(&scope, query.version, query.limit, &projection).await
    }

    async fn watch(
        &self,
        context: &Arc<RequestContext>,
        query: Query<WatchFrom>,
    ) -> Result<Box<dyn Watching>, ApiError> {
        let scope = self.scope(context, &query);
        let projection = self.projection(query.selection);
        self.registry.watch_items(&scope, query.version, Box::new(projection)).await
    }

    async fn create(&self, context: &Arc<RequestContext>, body: &Body) -> Result<Arc<dyn Item>, ApiError> {
        let object = self.version.decode(context, body)?;
        Ok(self.version.show(&self.registry.create_stored(context, object).await?))
    }

    async fn update(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let object = match self.version.decode(context, body) {
            // As upstream, an object that does not exist is reported before what is wrong with the new one.
            Err(error @ ApiError::Invalid(_)) => {
                return Err(self.registry.first_problem(context, name, body, error).await);
            }
            decoded => decoded?,
        };
        self.registry.check_names(context, name, kube::Resource::meta(&object))?;
        let make = Box::new(move |_: &Stored<S::Object>| Ok(object.clone()));
        Ok(self.version.show(&self.registry.update_stored(context, name, part, make).await?.stored))
    }

    async fn patch(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        mut patch: Patch,
    ) -> Result<Arc<dyn Item>, ApiError> {
        if let Some(content) = patch.strategic_mut() {
            self.registry.strategy().complete_partial(context, name, content).await?;
        }
        let (version, context_of_patch, patch_of_make) =
            (self.version.clone(), context.clone(), patch.clone());
        let make =
            Box::new(move |old: &Stored<S::Object>| version.patch(&context_of_patch, &patch_of_make, old));
        match self.registry.update_stored(context, name, part, make).await {
            // As upstream, a malformed patch is reported before an object that does not exist.
            Err(error) if error.reason() == Reason::NotFound => patch.check_syntax().and(Err(error)),
            written => Ok(self.version.show(&written?.stored)),
        }
    }

    async fn apply(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        part: Part,
        applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let written = self.registry.apply_stored(context, name, part, applied.clone()).await?;
        Ok(self.version.show(&written.stored))
    }

    async fn apply_new(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        Ok(self.version.show(&self.registry.create_applied(context, name, applied).await?))
    }

    async fn delete(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        options: DeleteOptions,
        delete: DeleteContext,
    ) -> Result<Deleted, ApiError> {
        let written = self.registry.delete_stored(context, name, options, delete).await?;
        Ok(Deleted { item: self.version.show(&written.stored), removed: written.removed })
    }

    async fn delete_undecodable(&self, context: &Arc<RequestContext>, name: &str) -> Result<(), ApiError> {
        self.registry.delete_undecodable(context, name).await
    }
}
