//! Keywords of a kind's schema: their values must mean something, because values of objects are checked
//! against them.

use std::collections::{BTreeMap, BTreeSet};

use machinery_validation::FieldPath;
use regex::Regex;
use schemars::Schema;
use serde_json::Value;

use crate::{DocumentError, Object, schema::V3_PREFIX};

/// Patterns of a kind, compiled once.
pub(crate) type Patterns = BTreeMap<String, Regex>;

const STRATEGY: &str = "x-kubernetes-patch-strategy";
/// Keywords that count letters, items or properties, in pairs of the least and the most.
const SIZES: [[&str; 2]; 3] =
    [["minLength", "maxLength"], ["minItems", "maxItems"], ["minProperties", "maxProperties"]];

/// Returns true when lists of a kind have a strategy of strategic merge patches. The metadata, whose lists
/// have strategies in every kind, does not count: k8s-openapi's schema leaves them out.
pub(crate) fn merges_strategically(schema: &Schema) -> bool {
    fn declares(schema: &Value) -> bool {
        match schema {
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| (key == STRATEGY && value == "merge") || declares(value))
            }
            Value::Array(parts) => parts.iter().any(declares),
            _ => false,
        }
    }
    declares(schema.as_value())
}

/// Checks the keywords of a kind and of all that it refers to, and returns its patterns.
///
/// # Errors
///
/// [`DocumentError::Pattern`] and [`DocumentError::Keyword`], for the first one that is wrong.
pub(crate) fn check(
    kind: &str,
    schemas: &BTreeMap<String, Value>,
    root: &str,
) -> Result<Patterns, DocumentError> {
    let mut walk = Walk { kind, schemas, seen: BTreeSet::new(), patterns: Patterns::new() };
    walk.definition(root, &FieldPath::default())?;
    Ok(walk.patterns)
}

struct Walk<'a> {
    kind: &'a str,
    schemas: &'a BTreeMap<String, Value>,
    /// Definitions that were checked. A definition can refer to itself.
    seen: BTreeSet<&'a str>,
    patterns: Patterns,
}

impl<'a> Walk<'a> {
    fn definition(&mut self, name: &str, field: &FieldPath) -> Result<(), DocumentError> {
        match self.schemas.get_key_value(name) {
            Some((name, schema)) if self.seen.insert(name) => self.schema(schema, field),
            _ => Ok(()),
        }
    }

    fn schema(&mut self, schema: &'a Value, field: &FieldPath) -> Result<(), DocumentError> {
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        self.keywords(keywords, field)?;
        if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
            self.definition(name.strip_prefix(V3_PREFIX).unwrap_or(name), field)?;
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.schema(part, field)?;
        }
        for (name, property) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.schema(property, &field.child(name))?;
        }
        for inner in ["items", "additionalProperties"].iter().filter_map(|name| keywords.get(*name)) {
            self.schema(inner, &field.key("*"))?;
        }
        Ok(())
    }

    fn keywords(&mut self, keywords: &Object, field: &FieldPath) -> Result<(), DocumentError> {
        if let Some(pattern) = keywords.get("pattern") {
            self.pattern(pattern, field)?;
        }
        for size in SIZES.as_flattened() {
            self.expect(keywords, size, field, "is no size", Value::is_u64)?;
        }
        for bound in ["minimum", "maximum"] {
            self.expect(keywords, bound, field, "is no number", Value::is_number)?;
        }
        let is_positive = |factor: &Value| factor.as_f64().is_some_and(|factor| factor > 0.0);
        self.expect(keywords, "multipleOf", field, "is no positive number", is_positive)?;
        let are_names =
            |names: &Value| names.as_array().is_some_and(|names| names.iter().all(Value::is_string));
        self.expect(keywords, "required", field, "is no list of names", are_names)?;
        for [least, most] in SIZES.into_iter().chain([["minimum", "maximum"]]) {
            let number = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
            let lower = number(least);
            let reaches = |most: &Value| lower.zip(most.as_f64()).is_none_or(|(lower, most)| lower <= most);
            self.expect(keywords, most, field, &format!("is less than its {least}"), reaches)?;
        }
        Ok(())
    }

    /// Refuses a keyword whose value does not pass. An absent keyword passes.
    fn expect(
        &self,
        keywords: &Object,
        keyword: &str,
        field: &FieldPath,
        problem: &str,
        passes: impl Fn(&Value) -> bool,
    ) -> Result<(), DocumentError> {
        match keywords.get(keyword).filter(|value| !passes(value)) {
            None => Ok(()),
            Some(value) => Err(DocumentError::Keyword {
                kind: self.kind.to_owned(),
                field: field.to_string(),
                keyword: keyword.to_owned(),
                value: value.to_string(),
                problem: problem.to_owned(),
            }),
        }
    }

    fn pattern(&mut self, pattern: &Value, field: &FieldPath) -> Result<(), DocumentError> {
        let text = pattern.as_str().map_or_else(|| pattern.to_string(), str::to_owned);
        let refused = |pattern: String, source: Box<dyn std::error::Error + Send + Sync>| {
            let (kind, field) = (self.kind.to_owned(), field.to_string());
            Err(DocumentError::Pattern { kind, field, pattern, source })
        };
        if !pattern.is_string() {
            return refused(text, "it is no text".into());
        }
        match Regex::new(&text) {
            Ok(compiled) => self.patterns.insert(text, compiled),
            Err(source) => return refused(text, source.into()),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks a kind whose `spec` is a definition of its own with one property.
    fn refused(property: &Value) -> Option<String> {
        let spec = format!("{V3_PREFIX}Spec");
        let schemas = BTreeMap::from([
            ("Pot".to_owned(), json!({"properties": {"spec": {"allOf": [{"$ref": spec}]}}})),
            ("Spec".to_owned(), json!({"properties": {"x": property, "again": {"$ref": spec}}})),
        ]);
        check("Pot", &schemas, "Pot").err().map(|error| error.to_string())
    }

    #[test]
    fn a_pattern_is_refused_with_its_kind_and_field_wherever_it_stands() {
        for (property, field) in [
            (json!({"pattern": "[a"}), "spec.x"),
            (json!({"items": {"pattern": "[a"}}), "spec.x[*]"),
            (json!({"additionalProperties": {"properties": {"y": {"pattern": "[a"}}}}), "spec.x[*].y"),
        ] {
            let problem = format!("kind Pot: field {field} has the pattern \"[a\", which is not valid");
            assert_eq!(refused(&property), Some(problem));
        }
        assert!(refused(&json!({"pattern": 1})).is_some());
        assert_eq!(refused(&json!({"properties": {"pattern": {"type": "string"}}})), None, "a field's name");
    }

    #[test]
    fn what_the_engine_of_upstream_has_and_ours_has_not_is_refused_and_not_ignored() {
        for pattern in [r"\Qa.b\E", "(?=a)", r"(a)\1", r"\Z", "a{1000}{1000}{1000}"] {
            assert!(refused(&json!({"pattern": pattern})).is_some(), "{pattern}");
        }
        for pattern in ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"\d+", "(?i)on|off", r"\p{Greek}", "(?P<a>b)", ""]
        {
            assert_eq!(refused(&json!({"pattern": pattern})), None, "{pattern}");
        }
    }

    #[test]
    fn a_keyword_whose_value_means_nothing_is_refused() {
        for (property, problem) in [
            (json!({"minLength": -1}), "minLength -1, which is no size"),
            (json!({"maxItems": 1.5}), "maxItems 1.5, which is no size"),
            (json!({"maxProperties": "2"}), "maxProperties \"2\", which is no size"),
            (json!({"minimum": "0"}), "minimum \"0\", which is no number"),
            (json!({"multipleOf": 0}), "multipleOf 0, which is no positive number"),
            (json!({"required": "x"}), "required \"x\", which is no list of names"),
            (json!({"minItems": 3, "maxItems": 2}), "maxItems 2, which is less than its minItems"),
            (json!({"minimum": 1, "maximum": 0.5}), "maximum 0.5, which is less than its minimum"),
        ] {
            assert_eq!(refused(&property), Some(format!("kind Pot: field spec.x has {problem}")));
        }
        let good = json!({"minLength": 0, "maxLength": 0, "minimum": -1, "maximum": 0.5, "multipleOf": 0.1});
        assert_eq!(refused(&good), None);
    }
}
