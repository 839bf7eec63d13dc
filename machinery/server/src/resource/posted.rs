//! Actions behind their types.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::Schema;
use serde_json::Value;

use super::{Body, decode_merged};
use crate::{
    Action, Admission, AdmissionAttributes, ApiError, MutableObject, RequestContext,
    admission::OneForm,
    item::Item,
    resource_name::ResourceName,
    stored::{Stored, to_value},
    structure::{KindStructure, schema_of},
};

/// An action, as it is served.
#[async_trait]
pub(crate) trait Posted: Send + Sync {
    fn name(&self) -> &'static str;
    /// Returns the name of the kind of the body.
    fn body_name(&self) -> ResourceName;
    fn schema(&self) -> Schema;
    /// Sets the admission plugins, and the versions of the resource. The first call counts.
    fn set_admission(&self, admission: &Arc<dyn Admission>, versions: Vec<String>);
    /// Performs the action on the object of that name in `resource`.
    async fn post(
        &self,
        context: &RequestContext,
        resource: &ResourceName,
        name: &str,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError>;
}

/// An [`Action`] as a [`Posted`].
pub(crate) struct PostedAction<A> {
    action: Arc<A>,
    structure: KindStructure,
    admission: OnceLock<(Arc<dyn Admission>, OneForm)>,
}

impl<A: Action> PostedAction<A> {
    pub(crate) fn new(action: Arc<A>) -> Self {
        let admission = OnceLock::new();
        Self { action, structure: KindStructure::of::<A::Body>(), admission }
    }

    /// Lets the plugins change or refuse a body.
    async fn admit(
        &self,
        context: &RequestContext,
        resource: &ResourceName,
        name: &str,
        body: A::Body,
    ) -> Result<A::Body, ApiError> {
        let Some((admission, versions)) = self.admission.get() else { return Ok(body) };
        let ResourceName { kind, .. } = self.body_name();
        let mut attributes = AdmissionAttributes {
            context,
            group: &resource.group,
            version: &resource.version,
            converter: Some(versions),
            resource: &resource.plural,
            kind: &kind,
            kind_version: None,
            name,
            options: None,
        };
        let Some(plugins) = admission.intercept(&attributes) else { return Ok(body) };
        let options = context.write_options();
        attributes.options = Some(&options);
        let mut mutable = MutableBody { action: self, context, value: to_value(&body)?, body };
        if plugins.mutates() {
            plugins.mutate(&attributes, Some(&mut mutable), None).await?;
        }
        if plugins.validates() {
            plugins.validate(&attributes, Some(&mutable.value), None).await?;
        }
        Ok(mutable.body)
    }
}

/// Body of an action in the hands of a plugin.
struct MutableBody<'a, A: Action> {
    action: &'a PostedAction<A>,
    context: &'a RequestContext,
    value: Value,
    body: A::Body,
}

impl<A: Action> MutableObject for MutableBody<'_, A> {
    fn value(&self) -> &Value {
        &self.value
    }

    fn replace(&mut self, value: Value) -> Result<(), ApiError> {
        let structure = self.action.structure.get()?;
        self.body = decode_merged(self.context, &self.action.body_name(), structure, value)?;
        self.value = to_value(&self.body)?;
        Ok(())
    }
}

#[async_trait]
impl<A: Action> Posted for PostedAction<A> {
    fn name(&self) -> &'static str {
        self.action.name()
    }

    fn body_name(&self) -> ResourceName {
        ResourceName::of::<A::Body>()
    }

    fn schema(&self) -> Schema {
        schema_of::<A::Body>()
    }

    fn set_admission(&self, admission: &Arc<dyn Admission>, versions: Vec<String>) {
        let _ = self.admission.set((admission.clone(), OneForm::new(versions)));
    }

    async fn post(
        &self,
        context: &RequestContext,
        resource: &ResourceName,
        name: &str,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let body = body.decode::<A::Body>(context, self.structure.get()?)?;
        let body = self.admit(context, resource, name, body).await?;
        let answer = self.action.post(context, name, body).await?;
        Ok(Arc::new(Stored::unsaved(answer)))
    }
}
