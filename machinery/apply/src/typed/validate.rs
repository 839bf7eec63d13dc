//! Validation of a document.

use std::collections::BTreeSet;

use machinery_schema::{List, Map, Node, Schema};
use serde_json::Value;

use super::{
    items::element_of,
    shape::{Shape, brief, scalar_mismatch, shape},
};
use crate::{Invalid, PathElement};

/// Treatment of items of one identity in sets and keyed lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They are valid: objects from before the list was keyed have them.
    Allow,
    /// They are errors: an applied document must not have them.
    Deny,
}

/// Checks a document against the schema: types, unknown fields, and the identity of list items.
///
/// # Errors
///
/// Every mismatch, at most 100. Of the unknown fields of one map, the first is reported.
pub fn validate(schema: &Schema, document: &Value, duplicates: Duplicates) -> Result<(), Invalid> {
    let mut errors = Invalid::default();
    Walk { schema, duplicates }.value(Some(schema.root()), document, &mut errors);
    errors.result(())
}

struct Walk<'s> {
    schema: &'s Schema,
    duplicates: Duplicates,
}

impl Walk<'_> {
    fn value(&self, node: Option<Node>, value: &Value, errors: &mut Invalid) {
        match (shape(self.schema, node, Some(value)), value) {
            (Shape::Map(_) | Shape::List(_), Value::Null) => {}
            (Shape::Map(map), Value::Object(fields)) => self.map(map, fields, errors),
            (Shape::List(list), Value::Array(items)) => self.list(list, items, errors),
            (Shape::Scalar(scalar), value) => {
                if let Some(mismatch) = scalar_mismatch(scalar, Some(value), "") {
                    errors.add(mismatch);
                }
            }
            (Shape::Map(_), other) => errors.add(format!("expected map, got {}", brief(other))),
            (Shape::List(_), other) => errors.add(format!("expected list, got {}", brief(other))),
            (Shape::Nothing, _) => errors.add("schema error: invalid atom: inlined"),
        }
    }

    fn map(&self, map: &Map, fields: &serde_json::Map<String, Value>, errors: &mut Invalid) {
        for (name, field) in fields {
            let Some(node) = map.node(name) else {
                let mut unknown = Invalid::default();
                unknown.add("field not declared in schema");
                return errors.add_below(&PathElement::field(name), unknown);
            };
            self.below(node, field, || PathElement::field(name), errors);
        }
    }

    fn list(&self, list: &List, items: &[Value], errors: &mut Invalid) {
        if list.is_atomic() {
            for (at, item) in items.iter().enumerate() {
                self.below(list.items, item, || index(at), errors);
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match element_of(self.schema, list, item) {
                Ok(element) => element,
                Err(reason) => return errors.add(format!("element {at}: {reason}")),
            };
            self.below(list.items, item, || element.clone(), errors);
            if seen.contains(&element) && self.duplicates == Duplicates::Deny {
                errors.add(format!("duplicate entries for key {element}"));
            }
            seen.insert(element);
        }
    }

    fn below(&self, node: Node, value: &Value, element: impl Fn() -> PathElement, errors: &mut Invalid) {
        let mut below = Invalid::default();
        self.value(Some(node), value, &mut below);
        if !below.0.is_empty() {
            errors.add_below(&element(), below);
        }
    }
}

fn index(at: usize) -> PathElement {
    PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX))
}
