//! Validation of label selectors. Source of the rules: `k8s.io/apimachinery/pkg/apis/meta/v1/validation`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use machinery_validation::{FieldError, FieldPath, label_key, label_value};

use super::text::Errors;

const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];

pub(super) fn validate_selector(errors: &mut Errors, path: &FieldPath, selector: &LabelSelector) {
    let labels = path.child("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        names(errors, &labels, key, label_key);
        names(errors, &labels.key(key), value, label_value);
    }
    let expressions = path.child("matchExpressions");
    for (i, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        validate_requirement(errors, &expressions.index(i), requirement);
    }
}

fn validate_requirement(errors: &mut Errors, path: &FieldPath, requirement: &LabelSelectorRequirement) {
    names(errors, &path.child("key"), &requirement.key, label_key);
    let field = path.child("values");
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.0.push(FieldError::required(&field, "must be given when the operator is In or NotIn"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.0.push(FieldError::forbidden(
            &field,
            "may not be given when the operator is Exists or DoesNotExist",
        )),
        operator if !OPERATORS.contains(&operator) => {
            errors.0.push(FieldError::not_supported(&path.child("operator"), operator, OPERATORS));
        }
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        names(errors, &field.index(i), value, label_value);
    }
}

fn names(errors: &mut Errors, field: &FieldPath, value: &str, rule: fn(&str) -> Vec<String>) {
    let problems = rule(value);
    errors.0.extend(problems.iter().map(|problem| FieldError::invalid(field, value, problem)));
}
