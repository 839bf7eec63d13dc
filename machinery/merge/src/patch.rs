//! JSON patches and merge patches, with the limits and the failures that kube-apiserver has.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::{DecodeError, PatchError, parse_json};

/// How many operations a JSON patch may have, as in k8s.io/apiserver's patch handler.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// How many bytes the `copy` operations of a JSON patch may copy in all, about: without a limit, a patch of a few hundred
/// bytes doubles an object until the server is out of memory. k8s.io/apiserver has the same bound (3 MiB).
pub const MAX_JSON_PATCH_COPY_BYTES: usize = 3 * 1024 * 1024;

/// How deep a patched document may be nested: what the JSON parser takes. `move` and `copy` could nest it deeper, step by
/// step, until a recursion over it overflows the stack.
const MAX_DEPTH: usize = 128;

/// Applies a JSON patch (RFC 6902) to a document.
///
/// # Errors
///
/// [`PatchError::Malformed`] when the bytes are not a JSON patch, [`PatchError::TooManyOperations`] and
/// [`PatchError::CopiesTooMuch`] at the limits, and [`PatchError::Inapplicable`] when a `test` fails, a path does not
/// exist or the result is nested deeper than 128 levels; nothing is applied then.
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let Patch(operations) = serde_json::from_slice(patch).map_err(|error| malformed(&error))?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(PatchError::TooManyOperations {
            count: operations.len(),
            limit: MAX_JSON_PATCH_OPERATIONS,
        });
    }
    let mut patched = document.clone();
    let mut copied = 0;
    // Not less than the depth of `patched`.
    let mut depth_bound = depth(document);
    for (index, operation) in operations.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation {
            copied += patched.pointer(copy.from.as_str()).map_or(0, size);
            if copied > MAX_JSON_PATCH_COPY_BYTES {
                return Err(PatchError::CopiesTooMuch { limit: MAX_JSON_PATCH_COPY_BYTES });
            }
        }
        // `patched` is thrown away on failure, so the variant that cannot undo does; one operation at a time
        // because the size of a copy depends on those before it.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation)).map_err(|error| {
            PatchError::Inapplicable {
                operation: index,
                path: error.path.to_string(),
                reason: error.kind.to_string(),
            }
        })?;
        depth_bound = depth_bound.max(deepest(operation, depth_bound));
        if depth_bound > MAX_DEPTH {
            depth_bound = depth(&patched);
        }
        if depth_bound > MAX_DEPTH {
            return Err(PatchError::Inapplicable {
                operation: index,
                path: operation.path().to_string(),
                reason: format!("the result is nested deeper than {MAX_DEPTH} levels"),
            });
        }
    }
    Ok(patched)
}

/// Applies a merge patch (RFC 7386) to a document.
///
/// # Errors
///
/// [`PatchError::Malformed`] when the bytes are not a JSON object.
pub fn merge_patch(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = match parse_json(patch) {
        Ok(parsed) => parsed.value,
        Err(DecodeError::Malformed { message } | DecodeError::WrongType { message, .. }) => {
            return Err(PatchError::Malformed { message });
        }
        Err(error @ DecodeError::Strict { .. }) => return Err(malformed(&error)),
    };
    if !patch.is_object() {
        return Err(PatchError::Malformed { message: "a merge patch is a JSON object".to_owned() });
    }
    let mut patched = document.clone();
    json_patch::merge(&mut patched, &patch);
    Ok(patched)
}

/// How deep what the operation wrote reaches at most, in a document that was at most `depth_bound` deep.
fn deepest(operation: &PatchOperation, depth_bound: usize) -> usize {
    let moved = |from: &json_patch::jsonptr::Pointer| depth_bound.saturating_sub(from.count());
    let value = match operation {
        PatchOperation::Add(add) => depth(&add.value),
        PatchOperation::Replace(replace) => depth(&replace.value),
        PatchOperation::Move(operation) => moved(&operation.from),
        PatchOperation::Copy(operation) => moved(&operation.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    operation.path().count() + value
}

/// How many arrays and objects lie in one another.
fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
    }
}

fn malformed(error: &dyn std::fmt::Display) -> PatchError {
    PatchError::Malformed { message: error.to_string() }
}

/// About the size of a value as JSON, without writing it.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, field)| key.len() + 4 + size(field)).sum::<usize>()
        }
    }
}
