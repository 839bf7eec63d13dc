//! Parts of whole objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn metadata<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    object.get("metadata")?.get(name)
}

pub(super) fn metadata_text<'v>(object: &'v Value, name: &str) -> &'v str {
    metadata(object, name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the object that a creation starts from: nothing but its kind.
pub(super) fn empty(like: &Value) -> Value {
    json!({"apiVersion": text(like, "apiVersion"), "kind": text(like, "kind")})
}

/// Returns the entries of an object. None when it has no list of them, or one that is not of entries.
pub(super) fn managed_fields(object: &Value) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = metadata(object, "managedFields")?.as_array()?;
    entries.iter().map(|entry| ManagedFieldsEntry::deserialize(entry).ok()).collect()
}

pub(super) fn has_managed_fields(object: &Value) -> bool {
    metadata(object, "managedFields").is_some_and(|fields| !fields.is_null())
}

pub(super) fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.remove("managedFields");
    }
}

fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

/// Returns the configuration that a client-side apply left in the annotation; None when it is empty.
pub(super) fn last_applied(object: &Value) -> Option<&str> {
    let annotation = metadata(object, "annotations")?.get(LAST_APPLIED)?.as_str()?;
    Some(annotation).filter(|annotation| !annotation.is_empty())
}

pub(super) fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    metadata_mut(object)?.get_mut("annotations").and_then(Value::as_object_mut)
}

/// Names an object in messages: `namespace/name; group/version, Kind=kind`.
pub(super) fn describe(object: &Value) -> String {
    let (namespace, name) = (metadata_text(object, "namespace"), metadata_text(object, "name"));
    let version = text(object, "apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {slash}{version}, Kind={}", text(object, "kind"))
}
