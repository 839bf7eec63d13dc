//! Uniqueness of the entries of sets and list maps.
//!
//! Source of the rules: `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::HashMap;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

/// Returns an error for each entry of a list that occurs a second time, at most `most`. `entry` is the schema
/// of entries. The time grows with the length of the list and no faster: callers make lists as long as a
/// body.
pub(super) fn check(
    schema: &Value,
    entry: Option<&Value>,
    items: &[Value],
    path: &FieldPath,
    most: usize,
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
    let mut seen: HashMap<Value, usize> = HashMap::with_capacity(items.len());
    let mut errors = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if errors.len() >= most {
            break;
        }
        let times = seen.entry(identity(item)).or_default();
        *times += 1;
        if *times == 2 {
            let repeated = identity(item).to_string();
            errors.push(FieldError::new(FieldErrorKind::Duplicate, &path.index(at), repeated));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Number of entries of a list that fills the largest body.
    const MANY: usize = 300_000;

    fn errors(schema: &Value, items: &[Value]) -> Vec<String> {
        let path = FieldPath::new("list");
        check(schema, None, items, &path, 3).iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn the_longest_list_of_different_entries_is_checked_as_fast_as_it_is_read() {
        let map = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
        let mut items: Vec<Value> = (0..MANY).map(|number| json!({"name": number})).collect();
        assert_eq!(errors(&map, &items), [""; 0]);
        items.push(json!({"name": 7}));
        assert_eq!(errors(&map, &items), [format!("list[{MANY}]")]);
        let set = json!({"x-kubernetes-list-type": "set"});
        items.pop();
        assert_eq!(errors(&set, &items), [""; 0]);
    }

    #[test]
    fn only_the_first_repetitions_of_a_long_list_are_reported() {
        let set = json!({"x-kubernetes-list-type": "set"});
        let items: Vec<Value> = (0..MANY).map(|number| json!(number / 2)).collect();
        assert_eq!(errors(&set, &items), ["list[1]", "list[3]", "list[5]"]);
    }
}
