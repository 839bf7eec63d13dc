//! Views, as they are served.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::Schema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{GetVersion, Query, Resource};
use crate::{
    ApiError, Column, KindInfo, Registry, RequestContext, Strategy, Verb, View,
    cache::{Entry, FieldValue, Scope},
    item::{DecodedItem, Item, object_of},
    registry::{Listed, Projection, Selection, StorageUsage, Version, WatchFrom, Watching},
    resource_name::ResourceName,
    stored::Stored,
    structure::schema_of,
};

/// A view of a registry, as it is served.
pub(crate) struct ViewResource<V: View> {
    view: Arc<V>,
    source: Arc<Registry<V::Source>>,
    name: ResourceName,
}

impl<V: View> ViewResource<V> {
    pub(crate) fn new(view: V, source: Arc<Registry<V::Source>>) -> Self {
        Self { view: Arc::new(view), source, name: ResourceName::of::<V::Object>() }
    }

    /// Returns the scope in which the caller can see objects.
    fn scope(&self, context: &RequestContext, selection: &Selection) -> Scope {
        let own = Some(&context.namespace).filter(|namespace| !namespace.is_empty()).cloned();
        let namespace = own.or_else(|| self.view.namespace(context)).unwrap_or_default();
        self.source.scope(&namespace, selection.name())
    }

    fn projection(&self, context: &Arc<RequestContext>, selection: Selection) -> Projected<V> {
        let field = self.view.field(context);
        let field = field.and_then(|(field, value)| self.source.field_value(field, &value));
        Projected { view: self.view.clone(), context: context.clone(), field, selection }
    }
}

/// Projection by a view, narrowed by a selection.
struct Projected<V: View> {
    view: Arc<V>,
    context: Arc<RequestContext>,
    /// Selectable field of the source, and its value in the objects that the caller can see.
    field: Option<FieldValue>,
    selection: Selection,
}

impl<V: View> Projection<<V::Source as Strategy>::Object> for Projected<V> {
    fn see(
        &self,
        entry: &Arc<Entry<<V::Source as Strategy>::Object>>,
    ) -> Result<Option<Arc<dyn Item>>, ApiError> {
        // What the caller can't see anyway is not decoded.
        if self.field.as_ref().is_some_and(|field| !field.is_of(entry.head())) {
            return Ok(None);
        }
        let Some(seen) = self.view.project(&self.context, &*entry.object()?) else { return Ok(None) };
        let labels = kube::Resource::meta(&seen).labels.as_ref();
        let label = |key: &str| labels?.get(key).map(String::as_str);
        let matches = self.selection.matches(entry.names(), label, |_| "");
        Ok(matches.then(|| Arc::new(Stored::new(seen, entry.revision())) as Arc<dyn Item>))
    }

    fn narrows(&self) -> bool {
        true
    }

    fn field(&self) -> Option<FieldValue> {
        self.field.clone()
    }
}

#[async_trait]
impl<V: View> Resource for ViewResource<V> {
    fn name(&self) -> &ResourceName {
        &self.name
    }

    fn is_view(&self) -> bool {
        true
    }

    fn lists_in_discovery(&self) -> bool {
        self.view.every_caller_may_list()
    }

    fn info(&self) -> KindInfo {
        self.view.info()
    }

    fn verbs(&self) -> &'static [Verb] {
        &[Verb::Get, Verb::List, Verb::Watch]
    }

    fn has_status(&self) -> bool {
        false
    }

    fn schema(&self) -> Schema {
        schema_of::<V::Object>()
    }

    fn is_selectable(&self, _field: &str) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        self.view.columns()
    }

    fn cells(&self, item: &dyn DecodedItem) -> Vec<Value> {
        object_of::<V::Object>(item).map(|object| self.view.cells(object)).unwrap_or_default()
    }

    fn start(&self, _shutdown: &CancellationToken) {}

    fn keeps_up(&self) -> bool {
        self.source.keeps_up()
    }

    fn stored_version(&self) -> Option<String> {
        None
    }

    fn usage(&self) -> Option<StorageUsage> {
        None
    }

    async fn ready(&self) -> Result<(), ApiError> {
        Ok(())
    }

    async fn get(
        &self,
        context: &Arc<RequestContext>,
        name: &str,
        version: GetVersion,
    ) -> Result<Arc<dyn Item>, ApiError> {
        self.view.admit(context)?;
        // An object that the caller may not see does not exist for it, under the view's own name.
        let unseen = || self.name.not_found(name);
        let entry = match version {
            GetVersion::Newest => self.source.get_newest(&context.namespace, name).await,
            GetVersion::AtLeast(revision) => self.source.get_cached(&context.namespace, name, revision).await,
        };
        let entry = entry.map_err(|error| match error.reason() {
            crate::Reason::NotFound => unseen(),
            _ => error,
        })?;
        self.projection(context, Selection::default()).see(&entry)?.ok_or_else(unseen)
    }

    async fn list(&self, context: &Arc<RequestContext>, query: Query<Version>) -> Result<Listed, ApiError> {
        self.view.admit(context)?;
        let scope = self.scope(context, &query.selection).skipping_unreadable(query.skips_unreadable);
        let projection = self.projection(context, query.selection);
        self.source.list_items(&scope, query.version, query.limit, &projection).await
    }

    async fn watch(
        &self,
        context: &Arc<RequestContext>,
        query: Query<WatchFrom>,
    ) -> Result<Box<dyn Watching>, ApiError> {
        self.view.admit(context)?;
        let scope = self.scope(context, &query.selection).skipping_unreadable(query.skips_unreadable);
        let projection = self.projection(context, query.selection);
        self.source.watch_items(&scope, query.version, Box::new(projection)).await
    }
}
