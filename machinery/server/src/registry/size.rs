//! Limits on the size of an object.

use serde::Serialize;
use serde_json::Value;

use super::Registry;
use crate::{ApiError, Reason, Strategy};

impl<S: Strategy> Registry<S> {
    /// Refuses an object whose metadata, or content without metadata and status, is too large. An object that
    /// was larger before there was a limit can shrink. Each part has the limit for itself: large metadata
    /// takes no room from the content.
    pub(super) fn check_size(&self, object: &S::Object, old: Option<&S::Object>) -> Result<(), ApiError> {
        let name = kube::Resource::meta(object).name.as_deref().unwrap_or_default();
        self.check_parts(name, object, old)
    }

    /// The same for a document that may have any shape.
    pub(super) fn check_parts(
        &self,
        name: &str,
        object: &impl Serialize,
        old: Option<&S::Object>,
    ) -> Result<(), ApiError> {
        let limit = self.quota.limits().object_bytes;
        if limit == usize::MAX {
            return Ok(());
        }
        let failed = |source| ApiError::internal(format!("encoding {}", self.resource), source);
        let new = Parts::of(object).map_err(failed)?;
        let old = old.map(Parts::of).transpose().map_err(failed)?.unwrap_or_default();
        for (what, size, before) in
            [("metadata", new.metadata, old.metadata), ("content", new.content, old.content)]
        {
            if size > limit.max(before) {
                let message = format!(
                    "Request entity too large: the {what} of {} {name:?} would have {size} bytes: limit is {limit}",
                    self.resource
                );
                return Err(ApiError::status(Reason::RequestEntityTooLarge, message));
            }
        }
        Ok(())
    }
}

/// Sizes of the parts of an object that callers write, in bytes.
#[derive(Default)]
struct Parts {
    metadata: usize,
    /// All except metadata and status.
    content: usize,
}

impl Parts {
    fn of(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        let mut value = serde_json::to_value(object)?;
        let fields = value.as_object_mut();
        let mut metadata = fields.and_then(|fields| {
            fields.remove("status");
            fields.remove("metadata")
        });
        if let Some(metadata) = metadata.as_mut().and_then(Value::as_object_mut) {
            // The record of ownership has a limit of its own.
            metadata.remove("managedFields");
        }
        Ok(Self {
            metadata: serde_json::to_vec(&metadata)?.len(),
            content: serde_json::to_vec(&value)?.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_and_content_are_measured_each_for_itself_and_the_status_not_at_all() {
        let sizes = |metadata: usize, content: usize, status: usize| {
            let object = json!({
                "metadata": {"annotations": {"why": "x".repeat(metadata)}},
                "spec": "x".repeat(content),
                "status": "x".repeat(status),
            });
            let parts = Parts::of(&object).expect("JSON");
            (parts.metadata, parts.content)
        };
        let (metadata, content) = sizes(0, 0, 0);
        assert_eq!(sizes(100, 0, 0), (metadata + 100, content));
        assert_eq!(sizes(0, 100, 0), (metadata, content + 100));
        assert_eq!(sizes(0, 0, 100), (metadata, content));
    }
}
