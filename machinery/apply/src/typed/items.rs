//! Identity of list items.

use machinery_schema::{List, ListKind, Schema};
use serde_json::Value;

use crate::{PathElement, go_text::quote};

/// Returns the path element of an item of a set or keyed list.
///
/// A key field that the item lacks has its default value, or is left out of the key when it has none.
pub(crate) fn element_of(schema: &Schema, list: &List, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListKind::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::value(scalar.clone())),
        },
        ListKind::Map(keys) => keyed(schema, list, keys, item),
    }
}

fn keyed(schema: &Schema, list: &List, keys: &[String], item: &Value) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let items = schema.atom(list.items).map.as_ref();
    let mut key = Vec::with_capacity(keys.len());
    for name in keys {
        let value = match (fields.get(name), items) {
            (Some(value), _) => Some(value),
            (None, Some(items)) => items.fields.get(name).and_then(|field| field.default.as_ref()),
            (None, None) => {
                return Err(format!(
                    "couldn't find default value for {name}: associative list may not have non-map types"
                ));
            }
        };
        key.extend(value.map(|value| (name.clone(), value.clone())));
    }
    if key.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
             default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(key))
}
