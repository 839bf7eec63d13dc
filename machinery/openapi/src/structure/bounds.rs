//! Bounds of values: numbers, lengths, patterns.
//!
//! Source of the messages: `k8s.io/kube-openapi/pkg/validation/errors`.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Number, Value};

use crate::keywords::Patterns;

/// Share of a multiple by which a fraction may differ from it, as upstream has it.
const TOLERANCE: f64 = 1e-9;

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
            if let Some(factor) = schema.get("multipleOf").filter(|factor| !is_multiple(number, factor)) {
                add(invalid, format!("{number}: {path} in body should be a multiple of {factor}"));
            }
        }
        Value::Object(fields) => {
            let length = fields.len();
            if let Some(least) = size("minProperties").filter(|least| length < *least) {
                add(invalid, format!("{length}: {path} in body should have at least {least} properties"));
            }
            if let Some(most) = size("maxProperties").filter(|most| length > *most) {
                add(FieldErrorKind::TooMany, format!("{length}: must have at most {most} items"));
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

fn is_multiple(number: &Number, factor: &Value) -> bool {
    if let Some((number, factor)) = number.as_i64().zip(factor.as_i64()) {
        return number.checked_rem(factor) == Some(0);
    }
    let (Some(number), Some(factor)) = (number.as_f64(), factor.as_f64()) else { return true };
    let times = number / factor;
    (times - times.round()).abs() <= TOLERANCE * times.abs().max(1.0)
}
