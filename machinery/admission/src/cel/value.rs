//! JSON as values of CEL.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map},
};
use serde_json::Value;

/// Converts a JSON value. As upstream for objects without a type, keys stay as they are.
pub(crate) fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Cel::Int(number),
            (None, Some(number), _) => Cel::UInt(number),
            (None, None, number) => Cel::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => map(fields.iter().map(|(key, value)| (key.as_str(), to_cel(value)))),
    }
}

/// Returns a map with these fields.
pub(crate) fn map<'a>(fields: impl Iterator<Item = (&'a str, Cel)>) -> Cel {
    let fields = fields.map(|(key, value)| (Key::String(Arc::new(key.to_owned())), value));
    Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
}
