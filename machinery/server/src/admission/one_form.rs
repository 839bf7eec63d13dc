//! Bodies that are the same in all versions of their resource.

use serde_json::Value;

use super::ObjectConverter;
use crate::ApiError;

/// Versions of a resource with a subresource whose body is the same in all of them.
#[derive(Debug, Default)]
pub(crate) struct OneForm {
    versions: Vec<String>,
}

impl OneForm {
    pub(crate) fn new(versions: impl IntoIterator<Item = String>) -> Self {
        Self { versions: versions.into_iter().collect() }
    }
}

impl ObjectConverter for OneForm {
    fn versions(&self) -> Vec<&str> {
        self.versions.iter().map(String::as_str).collect()
    }

    fn convert(&self, object: &Value, _: &str, _: &str) -> Result<Value, ApiError> {
        Ok(object.clone())
    }
}
