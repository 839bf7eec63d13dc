//! The version of stored bytes.

use std::borrow::Cow;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersion<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
}

/// Returns the `apiVersion` of a stored object. The rest of it is skipped.
pub(super) fn stored_version(bytes: &[u8]) -> Result<String, serde_json::Error> {
    serde_json::from_slice::<ApiVersion<'_>>(bytes).map(|found| found.api_version.into_owned())
}
