//! Ownership of fields and server-side apply.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use machinery_apply::{
    ApplyError, FieldSet, MAX_MANAGER_BYTES, OneVersion, Path, ReplicasPaths, Writer, apply,
    manager_from_user_agent, object_entries, scale_entries, track, validate_managed_fields, validate_manager,
};
use machinery_merge::{Strictness, decode, parse_json};
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

/// The entries of an object and, after a line break, its spec. Entries that can be read can be written, and
/// the owners of an object that nobody changed stay the same.
pub(crate) fn managed_fields(input: &[u8]) {
    let (entries, spec) = halves(input);
    let Ok(entries) = decode::<Vec<ManagedFieldsEntry>>(entries, Strictness::Ignore) else { return };
    let entries = entries.value;
    if validate_managed_fields(&entries).is_err() {
        return;
    }
    check_scale(&entries);
    let Some(mut live) = document(if spec.is_empty() { b"{}" } else { spec }) else { return };
    live["metadata"] = json!({"name": "a", "uid": "u", "managedFields": entries});
    let versions = &OneVersion { api_version: VERSION, schema: &SCHEMA };
    let writer = Writer { manager: "a", api_version: VERSION, subresource: "", now: Timestamp::UNIX_EPOCH };
    let Ok(tracked) = track(versions, Some(&live), &live, &writer, &FieldSet::new()) else { return };
    validate_managed_fields(&tracked).unwrap_or_else(|error| panic!("{error}: {tracked:?}"));
    live["metadata"]["managedFields"] = json!(tracked);
    let again = track(versions, Some(&live), &live, &writer, &FieldSet::new());
    let again = again.unwrap_or_else(|error| panic!("the same again: {error}"));
    assert_eq!(again, tracked);
}

/// The entries pass through the subresource `scale`: each manager of the number of replicas is there, and the
/// written entries can be read.
fn check_scale(entries: &[ManagedFieldsEntry]) {
    let paths: ReplicasPaths = [(VERSION.to_owned(), Some(Path::fields(&["spec", "n"])))].into();
    let scale = scale_entries(entries, &paths).unwrap_or_else(|error| panic!("{error}"));
    assert!(scale.len() <= entries.len());
    let written = object_entries(entries, &scale, VERSION, &paths).unwrap_or_else(|error| panic!("{error}"));
    validate_managed_fields(&written).unwrap_or_else(|error| panic!("{error}: {written:?}"));
    assert_eq!(scale_entries(&written, &paths).ok(), Some(scale), "{written:?}");
}

/// The annotation of a client-side apply and, after a line break, the spec that kubectl applies. A forced
/// apply has no conflict, and the same apply again changes nothing.
pub(crate) fn last_applied(input: &[u8]) {
    let (annotation, spec) = halves(input);
    let Ok(annotation) = str::from_utf8(annotation) else { return };
    let Some(mut applied) = document(spec) else { return };
    let mut live = applied.clone();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    live["metadata"] = json!({"name": "a", "annotations": annotations});
    let versions = &OneVersion { api_version: VERSION, schema: &SCHEMA };
    let none = FieldSet::new();
    let writer =
        |manager| Writer { manager, api_version: VERSION, subresource: "", now: Timestamp::UNIX_EPOCH };
    let Ok(entries) = track(versions, None, &live, &writer("kubectl-client-side-apply"), &none) else {
        return;
    };
    live["metadata"]["managedFields"] = json!(entries);
    live["metadata"]["uid"] = json!("u");
    if let Some(spec) = applied["spec"].as_object_mut() {
        spec.insert("n".to_owned(), json!(7));
    }
    let applied = apply(versions, Some(&live), &applied, &writer("kubectl"), false, &none);
    if let Err(ApplyError::Conflicts(conflicts)) = applied {
        assert!(!conflicts.is_empty());
    }
}

/// The header User-Agent. The manager of a request without a name is a valid one.
pub(crate) fn user_agent(input: &[u8]) {
    let Ok(user_agent) = str::from_utf8(input) else { return };
    let manager = manager_from_user_agent(user_agent);
    assert!(manager.len() <= MAX_MANAGER_BYTES, "{manager:?}");
    assert_eq!(validate_manager(&manager), [], "{manager:?}");
}

/// The document of a spec.
fn document(spec: &[u8]) -> Option<Value> {
    let spec = parse_json(spec).ok()?.value;
    Some(json!({"apiVersion": VERSION, "kind": "Root", "spec": spec}))
}
