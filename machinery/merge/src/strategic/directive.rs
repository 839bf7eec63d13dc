//! The directives of strategic merge patches.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::PatchError;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Value of `$patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The value of the patch replaces the object's.
    Replace,
    /// The object's value is removed.
    Delete,
}

impl Directive {
    /// Reads the directive of a map.
    pub(super) fn of(patch: &Map<String, Value>, at: &str) -> Result<Option<Self>, PatchError> {
        match patch.get(PATCH).map(Value::as_str) {
            None => Ok(None),
            Some(Some("replace")) => Ok(Some(Self::Replace)),
            Some(Some("delete")) => Ok(Some(Self::Delete)),
            Some(_) => Err(malformed(at, PATCH, "is neither \"replace\" nor \"delete\"")),
        }
    }
}

/// Returns true for the items of a patch that replace the object's.
pub(super) fn replaces(items: &[Value]) -> bool {
    items.iter().any(|item| item.get(PATCH).is_some_and(|directive| directive == "replace"))
}

/// Parts of a patch that change one list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListChange<'p> {
    /// Items to merge with the object's, or to replace them.
    pub(super) items: Option<&'p [Value]>,
    /// Scalars to remove.
    pub(super) removed: &'p [Value],
    /// Order of the items, by their merge keys.
    pub(super) order: Option<&'p [Value]>,
}

impl<'p> ListChange<'p> {
    /// Returns the change of a list, if the patch has one.
    pub(super) fn of(patch: &'p Map<String, Value>, field: &str) -> Option<Self> {
        let list = |prefix: &str| {
            patch.get(&format!("{prefix}{field}")).and_then(Value::as_array).map(Vec::as_slice)
        };
        let (items, removed, order) = (list(""), list(DELETE_FROM_LIST), list(SET_ELEMENT_ORDER));
        let is_none = items.is_none() && removed.is_none() && order.is_none();
        (!is_none).then_some(Self { items, removed: removed.unwrap_or_default(), order })
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.items.map_or(0, <[_]>::len) + self.removed.len() + self.order.map_or(0, <[_]>::len)
    }
}

/// Returns the field of the list that a directive changes.
pub(super) fn field_of_list<'k>(
    key: &'k str,
    value: &Value,
    at: &str,
) -> Result<Option<&'k str>, PatchError> {
    let field = key.strip_prefix(SET_ELEMENT_ORDER).or_else(|| key.strip_prefix(DELETE_FROM_LIST));
    if field.is_some() && !value.is_array() {
        return Err(malformed(at, key, "is no list"));
    }
    if field.is_some_and(is_directive) {
        return Err(malformed(at, key, "changes no field, but a directive"));
    }
    Ok(field)
}

fn is_directive(key: &str) -> bool {
    matches!(key, PATCH | RETAIN_KEYS)
        || key.starts_with(SET_ELEMENT_ORDER)
        || key.starts_with(DELETE_FROM_LIST)
}

/// Returns the fields of a patch that are no directives.
pub(super) fn fields(patch: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    patch.iter().filter(|(key, _)| !is_directive(key))
}

/// Returns the fields that `$retainKeys` lists, where a map has the directive.
pub(super) fn retained<'p>(
    patch: &'p Map<String, Value>,
    at: &str,
) -> Result<Option<&'p [Value]>, PatchError> {
    let list = |kept: &'p Value| kept.as_array().ok_or_else(|| malformed(at, RETAIN_KEYS, "is no list"));
    Ok(patch.get(RETAIN_KEYS).map(list).transpose()?.map(Vec::as_slice))
}

/// Removes the fields that `kept` does not list. It must list those that the patch sets.
pub(super) fn retain_keys(
    live: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    kept: &[Value],
    at: &str,
) -> Result<(), PatchError> {
    let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let lacking = |(key, value): &(&String, &Value)| !value.is_null() && !kept.contains(key.as_str());
    if let Some((key, _)) = fields(patch).find(lacking) {
        return Err(malformed(at, RETAIN_KEYS, &format!("lacks {key:?}, which the patch sets")));
    }
    live.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

/// Returns a value of a patch that the object lacks: without nulls and directives. None for a value that the
/// patch removes.
pub(super) fn new_value(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(new_fields(fields))),
        Value::Array(items) => Some(items.iter().filter_map(new_value).collect()),
        scalar => Some(scalar.clone()),
    }
}

/// Returns the fields of a map that the object lacks.
pub(super) fn new_fields(patch: &Map<String, Value>) -> Map<String, Value> {
    let fields = fields(patch).filter(|(_, value)| !value.is_null());
    fields.filter_map(|(key, value)| Some((key.clone(), new_value(value)?))).collect()
}

fn malformed(at: &str, directive: &str, problem: &str) -> PatchError {
    let place = if at.is_empty() { "the patch" } else { at };
    PatchError::Malformed { message: format!("{directive} of {place} {problem}") }
}
