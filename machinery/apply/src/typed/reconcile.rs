//! Ownership from before a change of the schema.

use machinery_schema::{List, Map, Node, Schema};

use super::shape::{Shape, shape};
use crate::{FieldSet, PathElement, set::Entry};

/// Adapts a set to the schema. When lists or maps that were granular are atomic now, the owner of any part
/// owns the whole. None means that the set fits already.
///
/// A change from atomic to granular needs nothing: the owner of the whole owns it as if it had always been
/// granular.
pub fn reconcile(schema: &Schema, set: &FieldSet) -> Option<FieldSet> {
    let mut walk = Walk { schema, path: Vec::new(), atomic: FieldSet::new() };
    walk.place(Some(schema.root()), Some(set), false);
    if walk.atomic.is_empty() {
        return None;
    }
    Some(set.recursive_difference(&walk.atomic).union(&walk.atomic))
}

struct Walk<'s> {
    schema: &'s Schema,
    path: Vec<PathElement>,
    /// Places that are atomic now and of which parts are owned.
    atomic: FieldSet,
}

impl<'s> Walk<'s> {
    /// `whole` tells that the place is owned and nothing below it.
    fn place(&mut self, node: Option<Node>, set: Option<&FieldSet>, whole: bool) {
        match shape(self.schema, node, None) {
            Shape::Map(map) if map.deduced => {}
            Shape::Map(map) if map.atomic => {
                if !whole && set.is_some() {
                    self.atomic.insert(&self.path);
                }
            }
            Shape::List(list) if list.is_atomic() => {
                if !whole {
                    self.atomic.insert(&self.path);
                }
            }
            Shape::Map(map) => self.map(map, set),
            Shape::List(list) => self.list(list, set),
            Shape::Scalar(_) | Shape::Nothing => {}
        }
    }

    fn map(&mut self, map: &'s Map, set: Option<&FieldSet>) {
        for (element, entry) in entries(set) {
            let node = match element {
                PathElement::Field(name) => map.node(name),
                _ => map.additional,
            };
            if node.is_some() {
                self.below(element, entry, node);
            }
        }
    }

    fn list(&mut self, list: &'s List, set: Option<&FieldSet>) {
        for (element, entry) in entries(set) {
            self.below(element, entry, Some(list.items));
        }
    }

    fn below(&mut self, element: &PathElement, entry: &Entry, node: Option<Node>) {
        self.path.push(element.clone());
        let below = Some(&entry.children).filter(|children| !children.is_empty());
        self.place(node, below, entry.member && below.is_none());
        self.path.pop();
    }
}

fn entries(set: Option<&FieldSet>) -> impl Iterator<Item = (&PathElement, &Entry)> {
    set.into_iter().flat_map(|set| &set.entries)
}
