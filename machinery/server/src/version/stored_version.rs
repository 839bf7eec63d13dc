//! The version of stored bytes.

use std::borrow::Cow;

use serde::Deserialize;

/// Beginning of every object that the server writes.
const FIRST_FIELD: &[u8] = br#"{"apiVersion":""#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersion<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
}

/// Returns the `apiVersion` of a stored object. The rest is skipped, and not read at all when `apiVersion`
/// comes first.
pub(crate) fn stored_version(bytes: &[u8]) -> Result<Cow<'_, str>, serde_json::Error> {
    let first = bytes.strip_prefix(FIRST_FIELD).and_then(|rest| {
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        rest.get(end).filter(|byte| **byte == b'"')?;
        std::str::from_utf8(rest.get(..end)?).ok()
    });
    match first {
        Some(version) => Ok(Cow::Borrowed(version)),
        None => serde_json::from_slice::<ApiVersion<'_>>(bytes).map(|found| found.api_version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_wherever_it_is_written() {
        for text in [
            r#"{"apiVersion":"kettles.dev/v1","kind":"Kettle"}"#,
            r#"{"kind":"Kettle","spec":{"apiVersion":"x"},"apiVersion":"kettles.dev/v1"}"#,
            r#"{"apiVersion":"kettles.dev\u002fv1"}"#,
            r#"{ "apiVersion": "kettles.dev/v1" }"#,
        ] {
            assert_eq!(stored_version(text.as_bytes()).expect("a version"), "kettles.dev/v1", "{text}");
        }
        for text in ["", "{}", "null", r#"{"apiVersion":1}"#, r#"{"apiVersion":"x"#] {
            assert!(stored_version(text.as_bytes()).is_err(), "{text}");
        }
    }
}
