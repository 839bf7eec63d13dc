//! One JSON Schema (draft 2020-12, as schemars writes it) into the schema of Kubernetes' OpenAPI v3.
//!
//! Kubernetes takes OpenAPI 3.0 and less: no `null`, no alternatives, no `const`, one type, nothing beside a
//! reference. Source: the parsers of k8s.io/kube-openapi (`pkg/validation/spec`, `pkg/util/proto`) and the
//! rules for structural schemas.

use serde_json::{Value, json};

use crate::{Object, alternatives, words::Words};

/// Prefix of references in OpenAPI v3.
pub(crate) const V3_PREFIX: &str = "#/components/schemas/";
const DEFS_PREFIX: &str = "#/$defs/";

/// Keywords that say nothing that OpenAPI can say, or nothing to a reader.
const DROPPED: &[&str] = &[
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "deprecated",
    "examples",
    "propertyNames",
    "title",
    "unevaluatedProperties",
    "writeOnly",
];

/// Keywords that mean the same in both.
const KEPT: &[&str] = &[
    "default",
    "description",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "type",
    "uniqueItems",
];

/// Part of a schema that OpenAPI cannot express.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Place, as a JSON pointer.
    pub(crate) path: String,
    /// Problem found there.
    pub(crate) problem: String,
}

/// Converts the schemas of one root.
pub(crate) struct Converter<'a> {
    /// The `$defs` of the root.
    pub(crate) definitions: &'a Object,
    /// The full name of a definition of the root; of the root itself for `#`.
    pub(crate) full_name: &'a dyn Fn(&str) -> String,
}

impl Converter<'_> {
    /// True if a definition is inlined where it is used. Only objects have definitions of their own, and
    /// types that Kubernetes itself names. In Go a string type has none either.
    pub(crate) fn is_inlined(name: &str, schema: &Value) -> bool {
        !name.contains('.') && is_scalar(schema)
    }

    /// The schema in the words of OpenAPI v3.
    ///
    /// # Errors
    ///
    /// The schema says what OpenAPI cannot say.
    pub(crate) fn convert(&self, schema: &Value, path: &str) -> Result<Value, Problem> {
        let schema = match schema {
            Value::Object(schema) => schema.clone(),
            Value::Bool(true) => Object::new(),
            _ => return Err(problem(path, "is a schema that nothing matches")),
        };
        if let Some(words) = Words::of(&schema) {
            let mut converted = common(&schema);
            words.write_to(&mut converted);
            return Ok(Value::Object(converted));
        }
        let resolve = |reference: &str| self.definitions.get(&unescape(reference.strip_prefix(DEFS_PREFIX)?));
        let mut schema = alternatives::merge(schema, &resolve).map_err(|found| problem(path, &found))?;
        if let Some(Value::Array(parts)) = schema.remove("allOf") {
            let [Value::Object(part)] = parts.as_slice() else {
                return Err(problem(path, "has an allOf of more than one part"));
            };
            for (key, value) in part {
                schema.entry(key.as_str()).or_insert_with(|| value.clone());
            }
            return self.convert(&Value::Object(schema), path);
        }
        match schema.remove("$ref") {
            Some(reference) => self.reference(&schema, reference.as_str().unwrap_or_default(), path),
            None => with_type(self.keywords(&schema, path)?, path),
        }
    }

    /// A reference with what stands beside it, which OpenAPI 3.0 allows only around an `allOf`.
    fn reference(&self, beside: &Object, reference: &str, path: &str) -> Result<Value, Problem> {
        let name = if reference == "#" {
            Some("#".to_owned())
        } else {
            reference.strip_prefix(DEFS_PREFIX).map(unescape)
        };
        let name = name
            .ok_or_else(|| problem(path, &format!("refers to {reference}, which is outside the schema")))?;
        if let Some(definition) = self.definitions.get(&name)
            && Self::is_inlined(&name, definition)
        {
            let Value::Object(mut merged) = definition.clone() else {
                return self.convert(definition, path);
            };
            merged.extend(beside.clone());
            return self.convert(&Value::Object(merged), path);
        }
        let reference = json!({"$ref": format!("{V3_PREFIX}{}", (self.full_name)(&name))});
        let mut converted = self.keywords(beside, path)?;
        if converted.is_empty() {
            return Ok(reference);
        }
        converted.insert("allOf".to_owned(), json!([reference]));
        Ok(Value::Object(converted))
    }

    fn keywords(&self, schema: &Object, path: &str) -> Result<Object, Problem> {
        let mut converted = Object::new();
        for (key, value) in schema {
            let below = format!("{path}/{}", escape(key));
            match (key.as_str(), value) {
                (kept, _) if KEPT.contains(&kept) || kept.starts_with("x-") => {
                    converted.insert(key.clone(), value.clone());
                }
                ("exclusiveMinimum" | "exclusiveMaximum", _) => {
                    // A number in draft 2020-12, a switch in OpenAPI 3.0.
                    let bound = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
                    converted.insert(bound.to_owned(), value.clone());
                    converted.insert(key.clone(), Value::Bool(true));
                }
                ("format", Value::String(format)) => {
                    converted.insert(key.clone(), kubernetes_format(format).into());
                }
                ("properties", Value::Object(properties)) => {
                    let properties = properties
                        .iter()
                        .map(|(name, property)| {
                            Ok((name.clone(), self.convert(property, &format!("{below}/{}", escape(name)))?))
                        })
                        .collect::<Result<Object, Problem>>()?;
                    converted.insert(key.clone(), Value::Object(properties));
                }
                // Unknown fields are the server's business: it drops or refuses them as `fieldValidation`
                // says.
                ("additionalProperties", Value::Bool(false)) => {}
                ("additionalProperties", Value::Bool(true)) => {
                    converted.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
                }
                ("items" | "additionalProperties", _) => {
                    converted.insert(key.clone(), self.convert(value, &below)?);
                }
                (dropped, _) if DROPPED.contains(&dropped) => {}
                _ => return Err(problem(&below, "is a keyword that OpenAPI does not have")),
            }
        }
        if schema.get("contentEncoding").and_then(Value::as_str) == Some("base64") {
            converted.insert("format".to_owned(), "byte".into());
        }
        Ok(converted)
    }
}

/// Says of a schema without a type that its values have any shape.
fn with_type(mut schema: Object, path: &str) -> Result<Value, Problem> {
    match schema.get("type") {
        Some(Value::Array(_)) => return Err(problem(path, "has more than one type")),
        Some(_) => {}
        None if schema.contains_key("x-kubernetes-int-or-string") => {}
        None => {
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
        }
    }
    Ok(Value::Object(schema))
}

/// True if the values of a schema have no parts.
fn is_scalar(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return true;
    };
    if let Some(Value::Array(alternatives)) = schema.get("oneOf").or_else(|| schema.get("anyOf")) {
        return alternatives.iter().all(is_scalar);
    }
    let scalar =
        |name: &Value| matches!(name.as_str(), Some("string" | "integer" | "number" | "boolean" | "null"));
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().all(scalar),
        Some(only) => scalar(only),
        None => schema.contains_key("const") || schema.contains_key("enum"),
    }
}

/// Returns the keywords that are allowed beside a closed set of words.
fn common(schema: &Object) -> Object {
    let wanted = |key: &str| matches!(key, "description" | "default") || key.starts_with("x-");
    let default_is_null = |key: &str, value: &Value| key == "default" && value.is_null();
    schema
        .iter()
        .filter(|(key, value)| wanted(key) && !default_is_null(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Kubernetes has integers of 32 and of 64 bits.
fn kubernetes_format(format: &str) -> &str {
    match format {
        "int8" | "uint8" | "int16" | "uint16" => "int32",
        "int" | "uint" | "uint32" | "uint64" | "int128" | "uint128" => "int64",
        other => other,
    }
}

fn problem(path: &str, problem: &str) -> Problem {
    Problem {
        path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
        problem: problem.to_owned(),
    }
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests;
