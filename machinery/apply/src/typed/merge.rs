//! Merge of an applied document into a live one.

use machinery_schema::{List, Map, Node, Schema};
use serde_json::{Map as Object, Value};

use super::shape::{Shape, scalar_mismatch, shape};
use crate::{Invalid, PathElement};

mod order;

/// Merges a document into a live one: its scalars and its atomic lists and maps replace those of the live
/// one, its fields and items join them.
///
/// The order of list items is that of the applied document; items that only the live one has keep their place
/// among their neighbours. Returns None when nothing is left, such as two empty maps in each other.
///
/// # Errors
///
/// [`Invalid`] when the applied document has several items of one identity, a list has an item without
/// identity or a value has an unexpected type on both sides.
pub fn merge(schema: &Schema, live: &Value, applied: &Value) -> Result<Option<Value>, Invalid> {
    Merge { schema }.value(Some(schema.root()), Some(live), Some(applied))
}

struct Merge<'s> {
    schema: &'s Schema,
}

type Merged = Result<Option<Value>, Invalid>;

impl<'s> Merge<'s> {
    fn value(&self, node: Option<Node>, live: Option<&Value>, applied: Option<&Value>) -> Merged {
        let left = shape(self.schema, node, live);
        let right = shape(self.schema, node, applied);
        if applied.is_none() {
            return self.shaped(left, live, applied);
        }
        if live.is_none() || left.is_same_kind(right) {
            return self.shaped(right, live, applied);
        }
        // The kind of the value changes. The live side is only checked.
        let mut errors = self.shaped(left, live, applied).err().unwrap_or_default();
        match self.shaped(right, live, applied) {
            Ok(merged) => errors.result(merged),
            Err(more) => {
                errors.extend(more);
                Err(errors)
            }
        }
    }

    fn shaped(&self, shape: Shape<'s>, live: Option<&Value>, applied: Option<&Value>) -> Merged {
        let leaf = || Ok(applied.or(live).cloned());
        match shape {
            Shape::Scalar(scalar) => {
                let mismatch = scalar_mismatch(scalar, live, "lhs: ");
                if let (Some(left), Some(right)) = (mismatch, scalar_mismatch(scalar, applied, "rhs: ")) {
                    let mut errors = Invalid::default();
                    errors.add(left);
                    errors.add(right);
                    return Err(errors);
                }
                leaf()
            }
            Shape::List(list) => {
                let (live_items, applied_items) = (list_of(live), list_of(applied));
                if list.is_atomic() || (live_items.is_empty() && applied_items.is_empty()) {
                    return leaf();
                }
                self.items(list, live_items, applied_items)
            }
            Shape::Map(map) => {
                let fields =
                    |value: Option<&'_ Value>| value.and_then(Value::as_object).map_or(0, Object::len);
                if map.atomic || fields(live) + fields(applied) == 0 {
                    return leaf();
                }
                self.fields(map, live.and_then(Value::as_object), applied.and_then(Value::as_object))
            }
            Shape::Nothing => {
                let mut errors = Invalid::default();
                errors.add("schema error: invalid atom: inlined");
                Err(errors)
            }
        }
    }

    fn fields(
        &self,
        map: &'s Map,
        live: Option<&Object<String, Value>>,
        applied: Option<&Object<String, Value>>,
    ) -> Merged {
        let (mut errors, mut merged) = (Invalid::default(), Object::new());
        let mut add = |name: &String, before: Option<&Value>, after: Option<&Value>| match self.value(
            map.node(name),
            before,
            after,
        ) {
            Ok(Some(value)) => {
                merged.insert(name.clone(), value);
            }
            Ok(None) => {}
            Err(below) => errors.add_below(&PathElement::field(name), below),
        };
        for (name, before) in live.into_iter().flatten() {
            add(name, Some(before), applied.and_then(|applied| applied.get(name)));
        }
        for (name, after) in applied.into_iter().flatten() {
            if !live.is_some_and(|live| live.contains_key(name)) {
                add(name, None, Some(after));
            }
        }
        errors.result((!merged.is_empty()).then_some(Value::Object(merged)))
    }

    fn items(&self, list: &'s List, live: &[Value], applied: &[Value]) -> Merged {
        let pairs = order::pair(self.schema, list, live, applied)?;
        let mut merged = Vec::with_capacity(pairs.len());
        for (before, after) in pairs {
            // As upstream, an item of which neither side fits is left out.
            if let Ok(Some(item)) = self.value(Some(list.items), before, after) {
                merged.push(item);
            }
        }
        Ok((!merged.is_empty()).then_some(Value::Array(merged)))
    }
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
