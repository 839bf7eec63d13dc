//! Actions behind their types.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::Schema;

use super::body::Body;
use crate::{
    Action, ApiError, RequestContext,
    resource_name::ResourceName,
    stored::{Item, Stored},
    structure::{KindStructure, schema_of},
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
pub(crate) struct PostedAction<A> {
    action: Arc<A>,
    structure: KindStructure,
}

impl<A: Action> PostedAction<A> {
    pub(crate) fn new(action: Arc<A>) -> Self {
        Self { action, structure: KindStructure::of::<A::Body>() }
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

    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        body: &Body,
    ) -> Result<Arc<dyn Item>, ApiError> {
        let body = body.decode::<A::Body>(context, self.structure.get()?)?;
        let answer = self.action.post(context, name, body).await?;
        Ok(Arc::new(Stored::unsaved(answer)))
    }
}
