//! Subresources that are only posted to.

use async_trait::async_trait;

use crate::{ApiError, Object, RequestContext};

/// A subresource that is only posted to, such as `respond`. It can hang on a stored resource and on a view.
///
/// The caller was authenticated and authorised to `create` it. For a dry run, the action must not change anything.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// What is posted, and what is answered; at most 64 KiB.
    type Body: Object;

    /// The last segment of the path, such as `respond`.
    fn name(&self) -> &'static str;

    /// Carries it out on the object of that name in `context.namespace`.
    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        body: Self::Body,
    ) -> Result<Self::Body, ApiError>;
}
