//! Entrances for a fuzzer: private parsers of what clients send. No part of the API.
//!
//! Each function takes bytes of a request and panics when a property of their parser does not hold.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use serde_json::Value;

use crate::{
    Reason,
    http::fuzzing as http,
    registry::Continue,
    selector::{FieldSelector, LabelSelector},
    version,
};

pub use http::{accept_header, delete_options, query, websocket_frames, websocket_protocols};

/// Finds the version of a stored object. It is the one that a parser of JSON finds.
pub fn stored_version(bytes: &[u8]) {
    let Ok(version) = version::stored_version(bytes) else { return };
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return };
    let Some(object) = object.as_object() else { return };
    assert_eq!(object.get("apiVersion").and_then(Value::as_str), Some(&*version));
}

/// Reads a label selector. White space between its tokens has no meaning, and a selector joined to itself
/// selects the same labels.
pub fn label_selector(text: &str) {
    let Ok(selector) = LabelSelector::parse(text) else { return };
    let spaced = LabelSelector::spaced(text);
    assert_eq!(LabelSelector::parse(&spaced).as_ref(), Ok(&selector), "{spaced}");
    if selector.is_empty() {
        return;
    }
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let label = |key: &str| words.iter().find(|word| **word == key).copied();
    let twice = LabelSelector::parse(&format!("{text},{text}")).map(|twice| twice.matches(label));
    assert_eq!(twice, Ok(selector.matches(label)), "{text}");
}

/// Reads a field selector. It finds the fields that it names, and an exact value matches.
pub fn field_selector(text: &str) {
    let Ok(selector) = FieldSelector::parse(text) else { return };
    for field in selector.fields() {
        assert!(text.contains(field), "{field:?} in {text:?}");
        let Some(exact) = selector.exact(field) else { continue };
        let escaped = exact.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let alone = FieldSelector::parse(&format!("{field}={escaped}"));
        let alone = alone.as_ref().ok().and_then(|alone| alone.exact(field));
        assert_eq!(alone, Some(exact), "{text}");
    }
    assert_eq!(selector.is_empty(), selector.fields().next().is_none());
}

/// Reads the token of a list's next page. A good one survives the round trip, a bad one is the client's
/// error.
pub fn continue_token(text: &str) {
    match Continue::parse(text) {
        Ok(token) => {
            let written = token.to_token().map_err(|error| error.to_string());
            let read = written.and_then(|text| Continue::parse(&text).map_err(|error| error.to_string()));
            assert_eq!(read, Ok(token));
        }
        Err(error) => assert_eq!(error.reason(), Reason::BadRequest),
    }
}
