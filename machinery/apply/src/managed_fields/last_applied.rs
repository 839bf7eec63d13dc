//! Migration from client-side apply, for the manager `kubectl` alone.

use machinery_schema::Schema;
use serde_json::Value;

use super::object::{self, LAST_APPLIED};
use crate::{
    Conflict, FieldSet,
    go_text::{Escapes, write_json},
    typed::{Duplicates, compare, field_set, validate},
};

/// Name of the manager whose client-side configuration counts.
pub(super) const KUBECTL: &str = "kubectl";
/// Maximum size of the annotations of an object in bytes, as Kubernetes' validation has it.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Returns the conflicts that the configuration of a client-side apply does not excuse: those on fields that
/// it lacks or that have changed since. All of them when there is no usable configuration.
pub(super) fn inexcusable(
    schema: &Schema,
    live: &Value,
    api_version: &str,
    mut conflicts: Vec<Conflict>,
) -> Vec<Conflict> {
    if let Some(unchanged) = unchanged(schema, live, api_version) {
        conflicts.retain(|conflict| !unchanged.has(&conflict.path.0));
    }
    conflicts
}

/// Returns the fields of the configuration that the live object still has as they were.
fn unchanged(schema: &Schema, live: &Value, api_version: &str) -> Option<FieldSet> {
    let annotation = object::last_applied(live)?;
    validate(schema, live, Duplicates::Deny).ok()?;
    let applied: Value = serde_json::from_str(annotation).ok()?;
    let same_kind = object::text(&applied, "apiVersion") == api_version
        && object::text(&applied, "kind") == object::text(live, "kind");
    if !same_kind {
        return None;
    }
    validate(schema, &applied, Duplicates::Deny).ok()?;
    let compared = compare(schema, &applied, live).ok()?;
    let changed = compared.modified.union(&compared.added).union(&compared.removed);
    Some(field_set(schema, &applied).difference(&changed))
}

/// Writes the applied document into the annotation of an object that has it already, so that a later
/// client-side apply starts from there. An annotation that would be too large is removed. Returns whether the
/// object has changed.
pub(super) fn renew(merged: &mut Value, applied: &Value) -> bool {
    if object::last_applied(merged).is_none() {
        return false;
    }
    let mut configuration = applied.clone();
    if let Some(annotations) = object::annotations_mut(&mut configuration) {
        annotations.remove(LAST_APPLIED);
    }
    let mut text = String::new();
    write_json(&mut text, &configuration, Escapes::Standard);
    text.push('\n');
    let Some(annotations) = object::annotations_mut(merged) else {
        return false;
    };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str) == Some(&text) {
        return false;
    }
    annotations.remove(LAST_APPLIED);
    let others = annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len));
    if others.sum::<usize>() + LAST_APPLIED.len() + text.len() <= MAX_ANNOTATIONS_BYTES {
        annotations.insert(LAST_APPLIED.to_owned(), text.into());
    }
    true
}
