//! Structural validation of documents: types, required fields, closed sets of words, bounds, unique entries.
//!
//! Source of the rules and of the messages: the validation of custom resources,
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation`.

mod bounds;
mod uniqueness;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use schemars::Schema;
use serde_json::Value;

use crate::{
    DocumentError, GroupVersion, Object,
    definitions::{Definitions, shape},
    keywords::{self, Patterns},
    schema::V3_PREFIX,
};

/// Maximum number of errors that one check reports.
const MAX_ERRORS: usize = 100;
/// Fields of the root that the decoder of the type checks, as kube-apiserver does for custom resources.
const TYPED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Structural schema of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Structure {
    schemas: Arc<BTreeMap<String, Value>>,
    root: Arc<str>,
    patterns: Arc<Patterns>,
    shape: machinery_schema::Schema,
    merges_strategically: bool,
}

impl Structure {
    /// Returns the structure of a kind whose type has this schema.
    ///
    /// A `pattern` is a regular expression of the crate `regex`, which is nearly what upstream accepts (RE2,
    /// as Go has it). As there, it has no look-around and no back-references, and matches any part of a value
    /// unless `^` and `$` say otherwise. It differs in three points. `\d`, `\w`, `\s` and `\b` mean all of
    /// Unicode and not ASCII only. Brackets can be nested, as in `[a-z&&[^x]]`, so that `[` itself is written
    /// `\[` there. `\Q...\E` does not exist.
    ///
    /// # Errors
    ///
    /// The same as those of the OpenAPI documents. A pattern that is not valid is among them.
    pub fn new(kind: &str, group_version: &GroupVersion, schema: &Schema) -> Result<Self, DocumentError> {
        let (schemas, root) = Definitions::of_kind(kind, group_version, schema)?;
        let shape = shape(kind, &schemas, &root)?;
        let patterns = Arc::new(keywords::check(kind, &schemas, &root)?);
        let merges_strategically = keywords::merges_strategically(schema);
        Ok(Self { schemas: Arc::new(schemas), root: root.into(), patterns, shape, merges_strategically })
    }

    /// Returns true when the schema has merge keys for strategic merge patches
    /// (`x-kubernetes-patch-strategy: merge`) beyond those of every object's metadata.
    pub fn merges_strategically(&self) -> bool {
        self.merges_strategically
    }

    /// Returns the shape by which objects of the kind are merged.
    pub fn shape(&self) -> &machinery_schema::Schema {
        &self.shape
    }

    /// Returns the type of the declared field at a path, such as `integer` for `spec.replicas`.
    pub fn field_type(&self, path: &str) -> Option<&str> {
        let mut schema = resolve(&self.schemas, self.schemas.get(&*self.root)?);
        for name in path.split('.') {
            schema = resolve(&self.schemas, schema.get("properties")?.get(name)?);
        }
        schema.get("type").and_then(Value::as_str)
    }

    /// Returns every structural error of a document, at most 100.
    ///
    /// A field that is `null` counts as absent. Unknown fields are not reported: that is the decoder's part.
    /// Neither are `apiVersion`, `kind` and `metadata`, nor a document that is not an object.
    pub fn check(&self, document: &Value) -> Vec<FieldError> {
        let mut walk = Walk {
            schemas: &self.schemas,
            patterns: &self.patterns,
            errors: Vec::new(),
            repeated: Vec::new(),
        };
        if let (Some(schema), Value::Object(fields)) = (self.schemas.get(&*self.root), document) {
            walk.fields(resolve(&self.schemas, schema), fields, &FieldPath::default(), &TYPED_FIELDS);
        }
        walk.errors.append(&mut walk.repeated);
        walk.errors.truncate(MAX_ERRORS);
        walk.errors
    }
    /// Adds the required fields that a part of an object lacks, with their values in the whole object. Only
    /// as much of a value is added as its schema requires.
    pub fn complete(&self, part: &mut Value, whole: &Value) {
        if let Some(schema) = self.schemas.get(&*self.root) {
            complete(&self.schemas, schema, part, whole);
        }
    }
}

/// Returns true when a schema of objects declares no fields.
fn is_free_form(schema: &Value) -> bool {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    is_object && schema.get("properties").is_none() && schema.get("additionalProperties").is_none()
}

/// Follows references; a reference with text beside it is wrapped in an `allOf`.
fn resolve<'a>(schemas: &'a BTreeMap<String, Value>, mut schema: &'a Value) -> &'a Value {
    loop {
        let part = schema.get("allOf").and_then(|parts| parts.get(0)).unwrap_or(schema);
        let name = part.get("$ref").and_then(Value::as_str);
        match name.and_then(|name| schemas.get(name.strip_prefix(V3_PREFIX)?)) {
            Some(definition) => schema = definition,
            None => return part,
        }
    }
}

/// Adds required fields to a value and to what lies below it. Items of a list are found by their keys.
fn complete(schemas: &BTreeMap<String, Value>, schema: &Value, part: &mut Value, whole: &Value) {
    let schema = resolve(schemas, schema);
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => complete_fields(schemas, schema, part, whole),
        (Value::Array(part), Value::Array(whole)) => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let (Some(keys), Some(items)) = (keys, schema.get("items")) else { return };
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            for item in part {
                let same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
                if let Some(found) = whole.iter().find(same) {
                    complete(schemas, items, item, found);
                }
            }
        }
        _ => {}
    }
}

fn complete_fields(schemas: &BTreeMap<String, Value>, schema: &Value, part: &mut Object, whole: &Object) {
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if let (false, Some(value)) = (part.contains_key(name), whole.get(name)) {
            let least = match value {
                Value::Object(_) => Value::Object(Object::new()),
                Value::Array(_) => Value::Array(Vec::new()),
                scalar => scalar.clone(),
            };
            part.insert(name.to_owned(), least);
        }
    }
    for (name, value) in part {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        if let (Some(property), Some(whole)) = (property, whole.get(name)) {
            complete(schemas, property, value, whole);
        }
    }
}

impl Structure {
    /// Returns the fields of a document that the kind does not have, at most 100.
    pub fn unknown(&self, document: &Value) -> Vec<FieldPath> {
        let mut walk = Walk {
            schemas: &self.schemas,
            patterns: &self.patterns,
            errors: Vec::new(),
            repeated: Vec::new(),
        };
        let mut found = Vec::new();
        if let Some(schema) = self.schemas.get(&*self.root) {
            walk.unknown(schema, document, &FieldPath::default(), &mut found);
        }
        found
    }
}

struct Walk<'a> {
    schemas: &'a BTreeMap<String, Value>,
    patterns: &'a Patterns,
    errors: Vec<FieldError>,
    /// Entries of lists that occur twice. As upstream, they are reported after all others.
    repeated: Vec<FieldError>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schema: &'a Value, value: &Value, path: &FieldPath) {
        if self.errors.len() >= MAX_ERRORS {
            return;
        }
        let schema = resolve(self.schemas, schema);
        if !self.has_type(schema, value, path) {
            if let Some(Value::Array(words)) = schema.get("enum") {
                let words: Vec<String> = words.iter().map(Value::to_string).collect();
                let message = format!("{value}: supported values: {}", words.join(", "));
                self.add(FieldError::new(FieldErrorKind::NotSupported, path, message));
            }
            return;
        }
        let exceeded = bounds::check(schema, value, path, self.patterns);
        let in_bounds = exceeded.is_empty();
        for error in exceeded {
            self.add(error);
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, path, &[]),
            Value::Array(items) => {
                let entry = schema.get("items").map(|entry| resolve(self.schemas, entry));
                let most = MAX_ERRORS - self.repeated.len();
                self.repeated.extend(uniqueness::check(schema, entry, items, path, most));
                if let Some(schema) = schema.get("items") {
                    for (at, item) in items.iter().enumerate() {
                        self.value(schema, item, &path.index(at));
                    }
                }
            }
            scalar if in_bounds => self.scalar(schema, scalar, path),
            _ => {}
        }
    }

    fn fields(&mut self, schema: &'a Value, fields: &Object, path: &FieldPath, typed: &[&str]) {
        let given = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !given(name) && !typed.contains(&name) {
                self.add(FieldError::required(&path.child(name), ""));
            }
        }
        let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        for (name, value) in fields {
            let found = property(name).or_else(|| schema.get("additionalProperties"));
            if let Some(found) = found.filter(|_| !value.is_null() && !typed.contains(&name.as_str())) {
                self.value(found, value, &path.child(name));
            }
        }
    }

    fn has_type(&mut self, schema: &Value, value: &Value, path: &FieldPath) -> bool {
        let found = type_of(value);
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return matches!(found, "integer" | "string") || self.wrong_type(found, "integer,string", path);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("number") if found == "integer" => true,
            // As upstream, a fraction is compared with the format.
            Some("integer") if found == "number" && schema.get("format").is_some() => {
                let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
                self.wrong_type("float64", format, path)
            }
            Some(expected) if found != expected => self.wrong_type(found, expected, path),
            _ => true,
        }
    }

    fn unknown(&mut self, schema: &'a Value, value: &Value, path: &FieldPath, found: &mut Vec<FieldPath>) {
        let schema = resolve(self.schemas, schema);
        if found.len() >= MAX_ERRORS || schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
            return;
        }
        match value {
            // Any fields, such as those of `fieldsV1`.
            Value::Object(_) if is_free_form(schema) => {}
            Value::Object(fields) => {
                let property =
                    |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
                for (name, value) in fields {
                    match property(name).or_else(|| schema.get("additionalProperties")) {
                        Some(inner) => self.unknown(inner, value, &path.child(name), found),
                        None => found.push(path.child(name)),
                    }
                }
            }
            Value::Array(items) => {
                let Some(entry) = schema.get("items") else { return };
                for (at, item) in items.iter().enumerate() {
                    self.unknown(entry, item, &path.index(at), found);
                }
            }
            _ => {}
        }
    }

    /// Reports the type; returns false.
    fn wrong_type(&mut self, found: &str, expected: &str, path: &FieldPath) -> bool {
        let message = format!("{found:?}: {path} in body must be of type {expected}: {found:?}");
        self.add(FieldError::new(FieldErrorKind::TypeInvalid, path, message));
        false
    }

    fn scalar(&mut self, schema: &Value, value: &Value, path: &FieldPath) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(Value::Array(words)) = schema.get("enum")
            && !words.contains(value)
        {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            return self.add(FieldError::not_supported(path, &text, &words));
        }
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let valid = match format {
            "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "date-time" => text.parse::<Timestamp>().is_ok(),
            _ => true,
        };
        if !valid {
            let message = format!("{path} in body must be of type {format}: {text:?}");
            self.add(FieldError::invalid(path, &text, message));
        }
    }

    fn add(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}

/// Returns the type of a value in the words of JSON Schema.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
