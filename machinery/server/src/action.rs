//! Subresources that support only POST.

use async_trait::async_trait;

use crate::{ApiError, Object, RequestContext};

/// Subresource that supports only POST, such as `respond`. It belongs to a stored resource or a view.
///
/// The caller was authenticated and authorised to `create` it. For a dry run, the action must not change
/// anything.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Body of the request and of the reply; at most 64 KiB.
    type Body: Object;

    /// Last segment of the path, such as `respond`.
    fn name(&self) -> &'static str;

    /// Performs the action on the object of that name in `context.namespace`.
    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        body: Self::Body,
    ) -> Result<Self::Body, ApiError>;
}
