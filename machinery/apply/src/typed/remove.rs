//! Removal and extraction of fields.

use machinery_schema::{List, Map, Node, Schema};
use serde_json::{Map as Object, Value};

use super::{
    items::element_of,
    shape::{Shape, shape},
};
use crate::{FieldSet, PathElement};

/// Removes fields and items from a document. Members of a set that the document lacks are ignored.
///
/// As upstream, a list or map that has lost all its content becomes null, and nothing inside an atomic list
/// or map can be removed: it becomes null, too.
pub fn remove_items(schema: &Schema, document: Value, items: &FieldSet) -> Value {
    Walk { schema, extract: false }.value(Some(schema.root()), document, items)
}

/// Returns the part of a document that a set names. A member names the item as a whole; pass
/// [`FieldSet::leaves`] for the fields alone.
pub fn extract_items(schema: &Schema, document: Value, items: &FieldSet) -> Value {
    Walk { schema, extract: true }.value(Some(schema.root()), document, items)
}

struct Walk<'s> {
    schema: &'s Schema,
    extract: bool,
}

impl<'s> Walk<'s> {
    fn value(&self, node: Option<Node>, value: Value, items: &FieldSet) -> Value {
        match (shape(self.schema, node, Some(&value)), value) {
            (Shape::Scalar(_), value) => value,
            (Shape::List(list), Value::Array(values)) => {
                if values.is_empty() || list.is_atomic() {
                    return self.whole(Value::Array(values));
                }
                self.list(list, values, items)
            }
            (Shape::Map(map), Value::Object(fields)) => {
                if fields.is_empty() || map.atomic {
                    return self.whole(Value::Object(fields));
                }
                self.map(map, fields, items)
            }
            _ => Value::Null,
        }
    }

    fn whole(&self, value: Value) -> Value {
        if self.extract { value } else { Value::Null }
    }

    fn list(&self, list: &'s List, values: Vec<Value>, items: &FieldSet) -> Value {
        let left = values.into_iter().filter_map(|item| {
            let Ok(element) = element_of(self.schema, list, &item) else {
                return (!self.extract).then_some(item);
            };
            let (member, below) = (items.has_element(&element), items.below(&element));
            let kept = if self.extract { member || below.is_some() } else { !member };
            if !kept {
                return None;
            }
            Some(match below {
                Some(below) => self.value(Some(list.items), item, below),
                None => item,
            })
        });
        let left: Vec<Value> = left.collect();
        if left.is_empty() { Value::Null } else { Value::Array(left) }
    }

    fn map(&self, map: &'s Map, fields: Object<String, Value>, items: &FieldSet) -> Value {
        let mut left = Object::new();
        for (name, field) in fields {
            let element = PathElement::field(&name);
            let node = map.node(&name);
            let field = match (items.has_element(&element), items.below(&element)) {
                (true, _) if self.extract => self.value(node, field, items),
                (true, _) => continue,
                (false, Some(below)) => self.value(node, field, below),
                (false, None) if self.extract => continue,
                (false, None) => field,
            };
            left.insert(name, field);
        }
        if left.is_empty() { Value::Null } else { Value::Object(left) }
    }
}
