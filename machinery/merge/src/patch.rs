//! JSON patches and merge patches, with the limits and the failures that kube-apiserver has.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::{
    DecodeError, Parsed, PatchError,
    finding::{MAX_FINDINGS, findings},
    parse_json,
};

/// Fields of an operation of a JSON patch.
const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// Maximum number of operations of a JSON patch, as in k8s.io/apiserver's patch handler.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Approximate maximum of bytes that the `copy` operations of a JSON patch copy in all. Without a limit, a
/// patch of a few hundred bytes doubles an object until the server is out of memory. k8s.io/apiserver has the
/// same limit (3 MiB).
pub const MAX_JSON_PATCH_COPY_BYTES: usize = 3 * 1024 * 1024;

/// Maximum nesting of a patched document, which is that of the JSON parser. Without a limit, `move` and
/// `copy` nest it deeper until a recursion over it overflows the stack.
const MAX_DEPTH: usize = 128;

/// A patched document, and the unknown and duplicate fields of the patch itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patched {
    /// The document with the patch applied.
    pub value: Value,
    /// The findings in Kubernetes' words, such as `duplicate field "spec.foo"`; at most 200.
    pub findings: Vec<String>,
    /// True when the patch removes only those items of merged lists that it names. It cannot remove one that
    /// its author has not seen. Always false for a JSON patch and a merge patch.
    pub removes_only_named_items: bool,
}

/// Applies a JSON patch (RFC 6902) to a document.
///
/// # Errors
///
/// [`PatchError::Malformed`] when the bytes are not a JSON patch, [`PatchError::TooManyOperations`] and
/// [`PatchError::CopiesTooMuch`] at the limits, and [`PatchError::Inapplicable`] when a `test` fails, a path
/// does not exist or the result is nested deeper than 128 levels; nothing is applied then.
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Patched, PatchError> {
    let parsed = parse(patch)?;
    let unknown = unknown_operation_fields(&parsed.value);
    let findings = findings(&unknown, &parsed.duplicate_fields);
    let findings = findings.into_iter().map(|finding| format!("json patch {finding}")).collect();
    let Patch(operations) = serde_json::from_value(parsed.value).map_err(|error| malformed(&error))?;
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
    Ok(Patched { value: patched, findings, removes_only_named_items: false })
}

fn unknown_operation_fields(operations: &Value) -> Vec<String> {
    let operations = operations.as_array().into_iter().flatten().enumerate();
    let unknown = operations.flat_map(|(at, operation)| {
        let names = operation.as_object().into_iter().flat_map(|fields| fields.keys());
        let unknown = names.filter(|name| !OPERATION_FIELDS.contains(&name.as_str()));
        unknown.map(move |name| format!("[{at}].{name}"))
    });
    unknown.take(MAX_FINDINGS).collect()
}

/// Applies a merge patch (RFC 7386) to a document.
///
/// # Errors
///
/// [`PatchError::Malformed`] when the bytes are not a JSON object.
pub fn merge_patch(document: &Value, patch: &[u8]) -> Result<Patched, PatchError> {
    let patch = parse(patch)?;
    if !patch.value.is_object() {
        return Err(PatchError::Malformed { message: "a merge patch is a JSON object".to_owned() });
    }
    let mut patched = document.clone();
    json_patch::merge(&mut patched, &patch.value);
    let findings = findings(&[], &patch.duplicate_fields);
    Ok(Patched { value: patched, findings, removes_only_named_items: false })
}

pub(crate) fn parse(patch: &[u8]) -> Result<Parsed, PatchError> {
    parse_json(patch).map_err(|error| match error {
        DecodeError::Malformed { message } | DecodeError::WrongType { message, .. } => {
            PatchError::Malformed { message }
        }
        DecodeError::Strict { .. } => malformed(&error),
    })
}

/// Returns the maximum depth of the value that an operation wrote, in a document at most `depth_bound` deep.
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

/// Returns the nesting of a value: the number of arrays and objects in each other.
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
