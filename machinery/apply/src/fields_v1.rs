//! FieldsV1: the JSON form of a field set in `metadata.managedFields`.
//!
//! The text is byte for byte that of `sigs.k8s.io/structured-merge-diff`: the order of the fields and the
//! texts of numbers and of escapes.

use serde_json::{Map, Value};

use crate::{
    FieldSet, PathElement,
    go_text::{Escapes, write_json, write_json_text},
    set::Entry,
};

/// Maximum nesting of the elements of a set.
pub const MAX_FIELDS_DEPTH: usize = 256;
/// Maximum number of elements of a set. An object of 3 MiB has fewer.
pub const MAX_FIELDS: usize = 500_000;

/// Reason for which a document is not FieldsV1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A value is not an object.
    #[error("fields below {key:?} are not an object")]
    NotAnObject {
        /// The key with the value; empty for the whole document.
        key: String,
    },
    /// A key is not a path element.
    #[error("key {key:?} is not a path element: {reason}")]
    BadElement {
        /// The key.
        key: String,
        /// Description of the problem.
        reason: String,
    },
    /// The elements are nested deeper than [`MAX_FIELDS_DEPTH`].
    #[error("fields are nested deeper than {MAX_FIELDS_DEPTH} levels")]
    TooDeep,
    /// There are more elements than [`MAX_FIELDS`].
    #[error("there are more than {MAX_FIELDS} fields")]
    TooMany,
}

impl FieldSet {
    /// Reads a set. Elements of an unknown type are dropped, as upstream does.
    ///
    /// # Errors
    ///
    /// [`FieldsError`] when the document is not FieldsV1 or exceeds a limit.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsError> {
        let mut left = MAX_FIELDS;
        read("", fields, MAX_FIELDS_DEPTH, &mut left).map(|entry| entry.children)
    }

    /// Returns the set as a JSON document. Its order is that of `serde_json` and not Go's.
    pub fn to_fields_v1(&self) -> Value {
        let fields = self.entries.iter().map(|(element, entry)| {
            let mut below = entry.children.to_fields_v1();
            if let (Value::Object(below), true) = (&mut below, entry.member && !entry.children.is_empty()) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element_text(element), below)
        });
        Value::Object(fields.collect())
    }

    /// Returns the set as JSON text, in Go's order.
    pub fn to_fields_v1_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, with_self: bool) {
        out.push('{');
        if with_self && !self.is_empty() {
            out.push_str("\".\":{}");
        }
        for (element, entry) in &self.entries {
            if !out.ends_with('{') {
                out.push(',');
            }
            write_json_text(out, &element_text(element), Escapes::Plain);
            out.push(':');
            entry.children.write(out, entry.member);
        }
        out.push('}');
    }
}

fn read(key: &str, fields: &Value, depth: usize, left: &mut usize) -> Result<Entry, FieldsError> {
    let none = Map::new();
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => &none,
        _ => return Err(FieldsError::NotAnObject { key: key.to_owned() }),
    };
    let mut entry = Entry::default();
    for (key, below) in fields {
        if key == "." {
            entry.member = true;
            continue;
        }
        let Some(element) = parse_element(key)? else {
            continue;
        };
        *left = left.checked_sub(1).ok_or(FieldsError::TooMany)?;
        let depth = depth.checked_sub(1).ok_or(FieldsError::TooDeep)?;
        entry.children.put(element, read(key, below, depth, left)?);
    }
    entry.member |= entry.children.is_empty();
    Ok(entry)
}

/// Parses a key. None for an element of an unknown type.
fn parse_element(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let bad = |reason: String| FieldsError::BadElement { key: key.to_owned(), reason };
    let mut characters = key.chars();
    let (Some(kind), Some(':')) = (characters.next(), characters.next()) else {
        return Err(bad("there is no colon after the type".to_owned()));
    };
    let content = characters.as_str();
    let json = || serde_json::from_str::<Value>(content).map_err(|error| bad(error.to_string()));
    Ok(Some(match kind {
        'f' => PathElement::field(content),
        'v' => PathElement::value(with_floats(json()?)),
        'k' => match json()? {
            Value::Object(fields) => {
                PathElement::key(fields.into_iter().map(|(name, value)| (name, with_floats(value))).collect())
            }
            Value::Null => PathElement::key(Vec::new()),
            _ => return Err(bad("the key is not an object".to_owned())),
        },
        'i' => PathElement::Index(content.parse().map_err(|error| bad(format!("{error}")))?),
        _ => return Ok(None),
    }))
}

/// Turns every number into floating point, as Go's decoder does: messages and large numbers show it.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.into_iter().map(with_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, with_floats(field))).collect(),
        other => other,
    }
}

fn element_text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let mut text = "k:{".to_owned();
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json_text(&mut text, name, Escapes::Plain);
                text.push(':');
                write_json(&mut text, value, Escapes::Html);
            }
            text + "}"
        }
        PathElement::Value(item) => {
            let mut text = "v:".to_owned();
            write_json(&mut text, item, Escapes::Html);
            text
        }
        PathElement::Index(index) => format!("i:{index}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fields: &Value) -> Result<String, String> {
        FieldSet::from_fields_v1(fields).map(|set| set.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_set_survives_the_round_trip_byte_for_byte() {
        for text in [
            "{}",
            r#"{"f:a":{}}"#,
            r#"{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}"#,
            r#"{"f:p":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":443}":{}}}"#,
            r#"{"f:s":{"v:2":{},"v:10":{},"v:\"1\"":{},"v:true":{},"i:2":{},"i:10":{}}}"#,
            r#"{"f:s":{"v:\"\\u003ca\\u003e\\n\"":{},"k:{\"a<\":\"\\u0026\"}":{}}}"#,
        ] {
            let fields: Value = serde_json::from_str(text).unwrap();
            let set = FieldSet::from_fields_v1(&fields).unwrap();
            let written = set.to_fields_v1_text();
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), fields);
            assert_eq!(set.to_fields_v1(), fields);
            assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
            if !text.contains("a<") && !text.contains(":443") {
                assert_eq!(written, text);
            }
        }
    }

    #[test]
    fn items_are_written_in_the_order_of_their_values() {
        let fields =
            json!({"v:10": {}, "v:9": {}, "k:{\"a\":10}": {}, "k:{\"a\":9}": {}, "f:z": {}, "i:1": {}});
        let set = FieldSet::from_fields_v1(&fields).unwrap();
        let text = r#"{"f:z":{},"k:{\"a\":9}":{},"k:{\"a\":10}":{},"v:9":{},"v:10":{},"i:1":{}}"#;
        assert_eq!(set.to_fields_v1_text(), text);
    }

    #[test]
    fn the_type_of_an_element_is_its_first_letter() {
        let fields = json!({"f:a": {"k:{\"b\":1,\"a\":\"x\"}": {}}, "v:1.50": {}, "i:3": {}, "f:": null});
        assert_eq!(read(&fields).unwrap(), ".\n[=1.5]\n[3]\n.a[a=\"x\",b=1]");
    }

    #[test]
    fn elements_of_unknown_types_are_dropped() {
        assert_eq!(read(&json!({"f:a": {"x:1": {"f:b": {}}}, "y:": {}})).unwrap(), ".a");
    }

    #[test]
    fn what_is_no_set_is_an_error() {
        let cases = [
            (json!([]), r#"fields below "" are not an object"#),
            (json!({"f:a": 1}), r#"fields below "f:a" are not an object"#),
            (json!({"a": {}}), r#"key "a" is not a path element: there is no colon after the type"#),
            (json!({"k:[]": {}}), r#"key "k:[]" is not a path element: the key is not an object"#),
            (json!({"i:x": {}}), r#"key "i:x" is not a path element: invalid digit found in string"#),
        ];
        for (fields, message) in cases {
            assert_eq!(read(&fields).unwrap_err(), message);
        }
        let key = "v:\"a".to_owned();
        assert!(matches!(read(&json!({key: {}})), Err(message) if message.contains("EOF")));
    }

    #[test]
    fn a_set_is_bounded() {
        let deep = (0..=MAX_FIELDS_DEPTH).fold(json!({}), |below, _| json!({"f:a": below}));
        assert_eq!(FieldSet::from_fields_v1(&deep), Err(FieldsError::TooDeep));
        let wide: Map<String, Value> = (0..=MAX_FIELDS).map(|at| (format!("i:{at}"), json!({}))).collect();
        assert_eq!(FieldSet::from_fields_v1(&Value::Object(wide)), Err(FieldsError::TooMany));
    }
}
