//! Actions behind their types.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};

use super::body::Body;
use crate::{
    Action, ApiError, Object, RequestContext,
    resource_name::ResourceName,
    stored::{Item, Stored},
};

/// An action, as it is served.
#[async_trait]
pub(crate) trait Posted: Send + Sync {
    fn name(&self) -> &'static str;
    /// Returns the name of the kind of the body.
    fn body_name(&self) -> ResourceName;
    fn schema(&self) -> Schema;
    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError>;
}

/// An [`Action`] as a [`Posted`].
pub(crate) struct PostedAction<A>(pub(crate) Arc<A>);

#[async_trait]
impl<A: Action> Posted for PostedAction<A> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn body_name(&self) -> ResourceName {
        ResourceName::of::<A::Body>()
    }

    fn schema(&self) -> Schema {
        schema_of::<A::Body>()
    }

    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let body = body.decode::<A::Body>(context)?;
        let answer = self.0.post(context, name, body).await?;
        Ok(Arc::new(Stored::unsaved(answer)))
    }
}

/// Returns the JSON schema of a kind.
pub(super) fn schema_of<O: Object>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<O>()
}
