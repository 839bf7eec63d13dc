//! Ownership of fields and server-side apply.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use machinery_apply::{ApplyError, FieldSet, OneVersion, Writer, apply, track};
use machinery_merge::parse_json;
use machinery_schema::Schema;
use serde_json::{Value, json};

use crate::halves;

const VERSION: &str = "example.com/v1";

/// Schema with every kind of list and map.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let root = json!({"type": "object", "properties": {
        "apiVersion": text, "kind": text, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "n": {"type": "integer"},
            "t": text,
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
                "items": {"type": "object", "properties": {
                    "k": {"type": "integer"}, "p": {"type": "string", "default": "TCP"}, "v": text,
                    "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                }}},
            "set": {"type": "array", "items": {"x-kubernetes-int-or-string": true}, "x-kubernetes-list-type": "set"},
            "list": {"type": "array", "items": text},
            "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
            "each": {"type": "object", "additionalProperties": {"type": "number"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
    }});
    let definitions = BTreeMap::from([("Root".to_owned(), root)]);
    Schema::new(&definitions, "Root").unwrap_or_else(|error| panic!("{error}"))
});

/// Reads FieldsV1. A set survives the round trip, and the union with itself changes nothing.
pub(crate) fn fields_v1(input: &[u8]) {
    let Ok(parsed) = parse_json(input) else { return };
    let Ok(set) = FieldSet::from_fields_v1(&parsed.value) else { return };
    let text: Value =
        serde_json::from_str(&set.to_fields_v1_text()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(FieldSet::from_fields_v1(&text).as_ref(), Ok(&set));
    assert_eq!(set.paths().len(), set.len());
    for path in set.paths() {
        assert!(set.has(&path.0), "{path:?}");
    }
}

/// Applies one spec on another. The same apply again changes nothing, and a forced one has no conflict.
pub(crate) fn server_side_apply(input: &[u8]) {
    let (first, second) = halves(input);
    let (Some(first), Some(second)) = (document(first), document(second)) else { return };
    let none = FieldSet::new();
    let versions = &OneVersion { api_version: VERSION, schema: &SCHEMA };
    let writer =
        |manager| Writer { manager, api_version: VERSION, subresource: "", now: Timestamp::UNIX_EPOCH };
    let mut live = first.clone();
    live["metadata"] = json!({"name": "a"});
    if let Ok(entries) = track(versions, None, &live, &writer("creator"), &none) {
        live["metadata"]["managedFields"] = json!(entries);
    }
    live["metadata"]["uid"] = json!("u");
    let unforced = apply(versions, Some(&live), &second, &writer("a"), false, &none);
    let forced = apply(versions, Some(&live), &second, &writer("a"), true, &none);
    let applied = match (unforced, forced) {
        (Err(ApplyError::Conflicts(conflicts)), Ok(applied)) => {
            assert!(!conflicts.is_empty());
            applied
        }
        (Ok(unforced), Ok(forced)) => {
            assert_eq!(unforced.object, forced.object);
            unforced
        }
        (_, Err(ApplyError::Conflicts(conflicts))) => panic!("forced, but {conflicts:?}"),
        _ => return,
    };
    let mut live = applied.object;
    live["metadata"]["managedFields"] = json!(applied.managed_fields);
    let again = apply(versions, Some(&live), &second, &writer("a"), false, &none);
    let again = again.unwrap_or_else(|error| panic!("the same again: {error}"));
    assert!(!again.changed, "{live} and {}", again.object);
    assert_eq!(again.managed_fields, applied.managed_fields);
}

/// The document of a spec.
fn document(spec: &[u8]) -> Option<Value> {
    let spec = parse_json(spec).ok()?.value;
    Some(json!({"apiVersion": VERSION, "kind": "Root", "spec": spec}))
}
