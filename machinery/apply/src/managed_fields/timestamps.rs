//! Writes that change nothing but a time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

use super::object;

/// Returns the entries to store with an updated object: those of the live one when nothing but times has
/// changed in them and nothing at all in the rest of the object, so that the write can be skipped.
///
/// The managed fields inside `new` are not looked at; `entries` are its new ones. Both objects must be
/// complete: a different `resourceVersion` is a difference.
pub fn keep_timestamps(
    live: &Value,
    new: &Value,
    entries: Vec<ManagedFieldsEntry>,
) -> Vec<ManagedFieldsEntry> {
    let Some(before) = object::managed_fields(live) else {
        return entries;
    };
    let same = before.len() == entries.len()
        && before.iter().zip(&entries).all(|(before, after)| is_same_but_time(before, after))
        && is_same_but_managed_fields(live, new);
    if same { before } else { entries }
}

fn is_same_but_time(before: &ManagedFieldsEntry, after: &ManagedFieldsEntry) -> bool {
    let parts = |entry: &ManagedFieldsEntry| {
        [&entry.manager, &entry.operation, &entry.api_version, &entry.fields_type, &entry.subresource]
            .map(|part| part.clone().unwrap_or_default())
    };
    parts(before) == parts(after) && before.fields_v1 == after.fields_v1
}

fn is_same_but_managed_fields(live: &Value, new: &Value) -> bool {
    let (Some(live), Some(new)) = (live.as_object(), new.as_object()) else {
        return live == new;
    };
    let same_metadata = match (live.get("metadata"), new.get("metadata")) {
        (Some(Value::Object(live)), Some(Value::Object(new))) => same_fields(live, new, "managedFields"),
        (live, new) => live == new,
    };
    same_metadata && same_fields(live, new, "metadata")
}

/// Returns whether two maps are equal but for one field.
fn same_fields(left: &Map<String, Value>, right: &Map<String, Value>, but: &str) -> bool {
    let others = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(but));
    others(left) == others(right)
        && left.iter().filter(|(name, _)| *name != but).all(|(name, value)| right.get(name) == Some(value))
}
