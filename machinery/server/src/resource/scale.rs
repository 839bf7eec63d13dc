//! Subresource `scale` of a stored kind, as it is served.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::autoscaling::v1::Scale;
use schemars::Schema;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    GetVersion, Query, Resource, applied::Applied, body::Body, method_not_allowed, patch::Patch,
    typed::decode_typed,
};
use crate::{
    ApiError, Column, KindInfo, Reason, Registry, RequestContext, Strategy, Verb,
    item::{DecodedItem, Item, object_of},
    registry::{Listed, Part, ScaleChange, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
    stored::Stored,
    structure::{KindStructure, schema_of},
};

/// Columns of a scale, in upstream's words.
const COLUMNS: &[Column] =
    &[column("Desired", "Number of desired replicas"), column("Available", "Number of actual replicas")];

const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, column_type: "integer", format: "", description, priority: 0 }
}

/// Scales of the objects of a registry. It has the verbs get, update and patch.
pub(crate) struct ScaleResource<S: Strategy> {
    registry: Arc<Registry<S>>,
    name: ResourceName,
    structure: Arc<KindStructure>,
}

impl<S: Strategy> ScaleResource<S> {
    pub(crate) fn new(registry: Arc<Registry<S>>, owner: &ResourceName) -> Self {
        let name = ResourceName { plural: owner.plural.clone(), ..ResourceName::of::<Scale>() };
        Self { registry, name, structure: Arc::new(KindStructure::of::<Scale>()) }
    }

    async fn change(
        &self,
        context: &RequestContext,
        name: &str,
        change: ScaleChange,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let scale = self.registry.update_scale(context, name, &self.structure, change).await?;
        Ok(Arc::new(Stored::shown(scale, 0)))
    }
}

#[async_trait]
impl<S: Strategy> Resource for ScaleResource<S> {
    fn name(&self) -> &ResourceName {
        &self.name
    }

    fn info(&self) -> KindInfo {
        self.registry.strategy().info()
    }

    fn verbs(&self) -> &'static [Verb] {
        &[Verb::Get, Verb::Update, Verb::Patch]
    }

    fn has_status(&self) -> bool {
        false
    }

    fn schema(&self) -> Schema {
        schema_of::<Scale>()
    }

    fn is_selectable(&self, _field: &str) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, item: &dyn DecodedItem) -> Vec<Value> {
        let Some(scale) = object_of::<Scale>(item) else { return Vec::new() };
        let desired = scale.spec.as_ref().and_then(|spec| spec.replicas);
        vec![json!(desired), json!(scale.status.as_ref().map(|status| status.replicas))]
    }

    fn start(&self, _shutdown: &CancellationToken) {}

    fn keeps_up(&self) -> bool {
        self.registry.keeps_up()
    }

    fn stored_version(&self) -> Option<String> {
        None
    }

    fn usage(&self) -> Option<StorageUsage> {
        None
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
        let stored = match version {
            GetVersion::Newest => self.registry.get_stored(&context.namespace, name).await?,
            GetVersion::AtLeast(revision) => {
                self.registry.get_cached(&context.namespace, name, revision).await?.object()?
            }
        };
        Ok(Arc::new(Stored::shown(self.registry.scale_of(context, &stored)?, stored.revision())))
    }

    async fn list(&self, _: &Arc<RequestContext>, _: Query<Version>) -> Result<Listed, ApiError> {
        Err(method_not_allowed())
    }

    async fn watch(
        &self,
        _: &Arc<RequestContext>,
        _: Query<WatchFrom>,
    ) -> Result<Box<dyn Watching>, ApiError> {
        Err(method_not_allowed())
    }

    async fn update(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        _: Part,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let scale: Scale = decode_typed(context, body)?;
        self.registry.check_names(context, name, &scale.metadata)?;
        self.change(context, name, ScaleChange::Replace(Box::new(scale))).await
    }

    async fn patch(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        _: Part,
        patch: Patch,
    ) -> Result<Arc<dyn Item>, ApiError> {
        match self.change(context, name, ScaleChange::Patch(patch.clone())).await {
            // As upstream, a malformed patch is reported before an object that does not exist.
            Err(error) if error.reason() == Reason::NotFound => patch.check_syntax().and(Err(error)),
            changed => changed,
        }
    }

    async fn apply(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        _: Part,
        applied: &Applied,
    ) -> Result<Arc<dyn Item>, ApiError> {
        self.change(context, name, ScaleChange::Apply(applied.clone())).await
    }
}
