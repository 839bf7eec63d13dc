//! Uniqueness of the entries of sets and list maps.
//!
//! Source of the rules: `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

/// Returns an error for each entry of a list that occurs a second time. `entry` is the schema of entries.
pub(super) fn check(
    schema: &Value,
    entry: Option<&Value>,
    items: &[Value],
    path: &FieldPath,
) -> Vec<FieldError> {
    let keys: Vec<&str> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Vec::new(),
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            keys.into_iter().flatten().filter_map(Value::as_str).collect()
        }
        _ => return Vec::new(),
    };
    let identity =
        |item: &Value| if keys.is_empty() { item.clone() } else { Value::Object(key_of(item, &keys, entry)) };
    let mut seen: Vec<(Value, usize)> = Vec::new();
    let mut errors = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let identity = identity(item);
        match seen.iter_mut().find(|(known, _)| *known == identity) {
            None => seen.push((identity, 1)),
            Some((_, times)) => {
                *times += 1;
                if *times == 2 {
                    errors.push(FieldError::new(
                        FieldErrorKind::Duplicate,
                        &path.index(at),
                        identity.to_string(),
                    ));
                }
            }
        }
    }
    errors
}

/// Returns the keys of an entry. An absent key has its default.
fn key_of(item: &Value, keys: &[&str], entry: Option<&Value>) -> Map<String, Value> {
    let default = |key: &str| entry?.get("properties")?.get(key)?.get("default");
    let found = |key: &str| item.get(key).filter(|value| !value.is_null()).or_else(|| default(key));
    keys.iter().filter_map(|key| Some(((*key).to_owned(), found(key)?.clone()))).collect()
}
