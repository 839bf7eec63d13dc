//! Expressions of admission policies.

use std::str::from_utf8;

use machinery_admission::fuzzing;
use machinery_merge::parse_json;
use serde_json::{Value, json};

/// The expression, a line with `---`, and the object. Without an object it is a small one.
pub(crate) fn cel(input: &[u8]) {
    let Ok(text) = from_utf8(input) else { return };
    let (source, object) = text.split_once("\n---\n").unwrap_or((text, ""));
    let object = parse_json(object.as_bytes()).map_or_else(|_| small(), |parsed| parsed.value);
    fuzzing::expression(source, &object);
}

fn small() -> Value {
    json!({
        "apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": "a", "labels": {"app": "soup"}},
        "spec": {"servings": 2, "dish": "grün", "steps": [{"name": "boil"}, {"name": "stir"}], "hot": true},
    })
}
