//! API versions of a kind.

use machinery_schema::Schema;
use serde_json::Value;

/// API versions of a kind: their schemas, and conversion between them.
///
/// Managers own fields in the version in which they wrote. A manager of a version that is not served any more
/// is forgotten, as kube-apiserver does.
pub trait Versions: Sync {
    /// Returns the schema of the documents of a version; None when the version is not served.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// Converts a document between two served versions.
    ///
    /// `document` is the whole object `whole`, or what is left of it after some fields were removed: it may
    /// lack required fields. `whole` is in the version `from`, too.
    ///
    /// # Errors
    ///
    /// The reason that the document cannot be converted.
    fn convert(&self, document: &Value, whole: &Value, from: &str, to: &str) -> Result<Value, String>;
}

/// The only API version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a> {
    /// The version, such as `apps/v1`.
    pub api_version: &'a str,
    /// The schema of its documents.
    pub schema: &'a Schema,
}

impl Versions for OneVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        (self.api_version == api_version).then_some(self.schema)
    }

    fn convert(&self, document: &Value, _: &Value, from: &str, to: &str) -> Result<Value, String> {
        if from == to { Ok(document.clone()) } else { Err(format!("{to} is not served")) }
    }
}
