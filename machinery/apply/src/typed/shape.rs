//! Choice among the kinds of values that a place accepts.

use machinery_schema::{List, Map, Node, Scalar, Schema};
use serde_json::Value;

use crate::go_text::display;

/// Treatment of a value at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'s> {
    Map(&'s Map),
    Scalar(Scalar),
    List(&'s List),
    /// The schema has no such place.
    Nothing,
}

impl Shape<'_> {
    pub(crate) fn is_same_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// Chooses by the kind of the value. A value of a kind that is not accepted, null and no value are treated as
/// a map where maps are accepted, else as a scalar, else as a list.
pub(crate) fn shape<'s>(schema: &'s Schema, node: Option<Node>, value: Option<&Value>) -> Shape<'s> {
    let Some(atom) = node.map(|node| schema.atom(node)) else {
        return Shape::Nothing;
    };
    match (value, &atom.scalar, &atom.list, &atom.map) {
        (Some(Value::Number(_) | Value::String(_) | Value::Bool(_)), Some(scalar), _, _) => {
            Shape::Scalar(*scalar)
        }
        (Some(Value::Array(_)), _, Some(list), _) => Shape::List(list),
        (_, _, _, Some(map)) => Shape::Map(map),
        (_, Some(scalar), _, _) => Shape::Scalar(*scalar),
        (_, _, Some(list), _) => Shape::List(list),
        _ => Shape::Nothing,
    }
}

/// Returns the reason for which a value is no scalar of a type. Null and no value fit all.
pub(crate) fn scalar_mismatch(scalar: Scalar, value: Option<&Value>, side: &str) -> Option<String> {
    let value = value?;
    let expected = match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Number | Scalar::Untyped, Value::Number(_))
        | (Scalar::String | Scalar::Untyped, Value::String(_))
        | (Scalar::Boolean | Scalar::Untyped, Value::Bool(_)) => return None,
        (Scalar::Number, _) => "numeric (int or float)",
        (Scalar::String, _) => "string",
        (Scalar::Boolean, _) => "boolean",
        (Scalar::Untyped, _) => "any scalar",
    };
    Some(format!("{side}expected {expected}, got {}", brief(value)))
}

/// Writes a value for a message, in at most about 100 characters.
pub(crate) fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        scalar => {
            let text = display(scalar);
            match text.char_indices().nth(100) {
                Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
                None => text,
            }
        }
    }
}
