//! Equality and order of values: numbers compare by value, whatever their notation.
//!
//! The order is total, as the order of field sets needs it: numbers, texts, booleans, lists, maps, null.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Returns an integer, unless the number has a fraction or exceeds 64 bits.
pub(crate) fn integer(number: &Number) -> Option<i64> {
    if number.is_f64() { None } else { number.as_i64() }
}

/// Returns a number as floating point, as Go reads numbers that are no integers of 64 bits.
pub(crate) fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

/// Returns whether two values are the same to Kubernetes: `1` and `1.0` are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| right.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

/// Compares two values in the total order.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    let different =
        left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
    different.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Compares maps as sorted lists of fields.
fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let sorted = |map: &Map<String, Value>| {
        let mut names: Vec<String> = map.keys().cloned().collect();
        names.sort_unstable();
        names
    };
    for (left_name, right_name) in sorted(left).iter().zip(&sorted(right)) {
        // The map that lacks the smaller name is the greater one: it has a greater name there.
        let order = left_name.cmp(right_name);
        let order = order.then_with(|| match (left.get(left_name), right.get(right_name)) {
            (Some(left), Some(right)) => compare(left, right),
            _ => Ordering::Equal,
        });
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// Returns the nesting of a value: the number of lists and maps in each other, at most `limit` + 1.
pub(crate) fn depth(value: &Value, limit: usize) -> usize {
    match value {
        Value::Array(_) | Value::Object(_) if limit == 0 => 1,
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, limit - 1)).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(|field| depth(field, limit - 1)).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_ordered_by_kind_and_then_by_value() {
        let sorted = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!(u64::MAX),
            json!("a"),
            json!("b"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"b": 1}),
            Value::Null,
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), at.cmp(&other), "{left} and {right}");
                assert_eq!(equal(left, right), at == other, "{left} and {right}");
            }
        }
    }

    #[test]
    fn the_notation_of_a_number_does_not_matter() {
        assert!(equal(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(compare(&json!(1), &json!(1.0)).is_eq());
        assert!(!equal(&json!(1), &json!("1")));
    }
}
