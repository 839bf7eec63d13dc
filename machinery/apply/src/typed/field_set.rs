//! The fields that a document sets.

use std::collections::BTreeMap;

use machinery_schema::{List, Map, Node, Schema};
use serde_json::Value;

use super::{
    items::element_of,
    shape::{Shape, shape},
};
use crate::{FieldSet, PathElement, set::Entry};

/// Returns the fields that a document sets: scalars, atomic lists and maps, nulls, empty maps, undeclared
/// fields of maps, and items of sets and keyed lists.
///
/// Of items with one identity only that identity is a member. Items without identity, which no valid document
/// has, count as items with an empty key: pruning can leave such items for a while.
pub fn field_set(schema: &Schema, document: &Value) -> FieldSet {
    collect(schema, Some(schema.root()), document).children
}

/// Returns whether the value itself is a member, and the members below it.
fn collect(schema: &Schema, node: Option<Node>, value: &Value) -> Entry {
    let leaf = Entry { member: true, children: FieldSet::new() };
    match (shape(schema, node, Some(value)), value) {
        (Shape::Scalar(_), _) => leaf,
        (Shape::List(list), _) if list.is_atomic() => leaf,
        (Shape::Map(map), _) if map.atomic => leaf,
        (Shape::List(list), Value::Array(items)) => {
            Entry { member: false, children: in_list(schema, list, items) }
        }
        (Shape::Map(map), Value::Object(fields)) => {
            Entry { member: false, children: in_map(schema, map, fields) }
        }
        _ => Entry::default(),
    }
}

fn in_list(schema: &Schema, list: &List, items: &[Value]) -> FieldSet {
    let mut by_element: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for item in items {
        let element = element_of(schema, list, item).unwrap_or_else(|_| PathElement::key(Vec::new()));
        // None marks items of one identity.
        by_element.entry(element).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let entries = by_element.into_iter().map(|(element, item)| {
        let below = item.map(|item| collect(schema, Some(list.items), item).children);
        (element, Entry { member: true, children: below.unwrap_or_default() })
    });
    FieldSet { entries: entries.collect() }
}

fn in_map(schema: &Schema, map: &Map, fields: &serde_json::Map<String, Value>) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, field) in fields {
        let mut entry = collect(schema, map.node(name), field);
        entry.member |= !map.fields.contains_key(name)
            || field.is_null()
            || field.as_object().is_some_and(serde_json::Map::is_empty);
        set.put(PathElement::field(name), entry);
    }
    set
}
