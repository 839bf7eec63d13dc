//! Bounds of values: numbers, lengths, patterns.
//!
//! Source of the messages: `k8s.io/kube-openapi/pkg/validation/errors`.

use std::collections::BTreeMap;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use regex::Regex;
use serde_json::Value;

use crate::walk::each_object;

/// Patterns of a kind, compiled once. Of a pattern that is not valid, nothing is checked.
pub(super) type Patterns = BTreeMap<String, Regex>;

/// Compiles the patterns of all schemas.
pub(super) fn patterns<'a>(schemas: impl Iterator<Item = &'a Value>) -> Patterns {
    let mut patterns = Patterns::new();
    for schema in schemas {
        each_object(schema, &mut |fields| {
            if let Some(pattern) = fields.get("pattern").and_then(Value::as_str)
                && let Ok(compiled) = Regex::new(pattern)
            {
                patterns.insert(pattern.to_owned(), compiled);
            }
        });
    }
    patterns
}

/// Returns the bounds that a value exceeds.
pub(super) fn check(schema: &Value, value: &Value, path: &FieldPath, patterns: &Patterns) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut add = |kind: FieldErrorKind, message: String| errors.push(FieldError::new(kind, path, message));
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let size =
        |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let invalid = FieldErrorKind::Invalid;
    match value {
        Value::Number(number) => {
            let actual = number.as_f64().unwrap_or_default();
            let exclusive = |name: &str| schema.get(name) == Some(&Value::Bool(true));
            if let Some(least) = bound("minimum") {
                let strictly = exclusive("exclusiveMinimum");
                if actual < least || (strictly && actual <= least) {
                    let than = if strictly { "greater than" } else { "greater than or equal to" };
                    add(invalid, format!("{number}: {path} in body should be {than} {least}"));
                }
            }
            if let Some(most) = bound("maximum") {
                let strictly = exclusive("exclusiveMaximum");
                if actual > most || (strictly && actual >= most) {
                    let than = if strictly { "less than" } else { "less than or equal to" };
                    add(invalid, format!("{number}: {path} in body should be {than} {most}"));
                }
            }
        }
        Value::String(text) => {
            let length = text.chars().count();
            if let Some(least) = size("minLength").filter(|least| length < *least) {
                add(invalid, format!("{text:?}: {path} in body should be at least {least} chars long"));
            }
            if let Some(most) = size("maxLength").filter(|most| length > *most) {
                add(FieldErrorKind::TooLong, format!("may not be more than {most} bytes"));
            }
            let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
            if patterns.get(pattern).is_some_and(|compiled| !compiled.is_match(text)) {
                add(invalid, format!("{text:?}: {path} in body should match '{pattern}'"));
            }
        }
        Value::Array(items) => {
            let length = items.len();
            if let Some(least) = size("minItems").filter(|least| length < *least) {
                add(invalid, format!("{length}: {path} in body should have at least {least} items"));
            }
            if let Some(most) = size("maxItems").filter(|most| length > *most) {
                add(FieldErrorKind::TooMany, format!("{length}: must have at most {most} items"));
            }
        }
        _ => {}
    }
    errors
}
