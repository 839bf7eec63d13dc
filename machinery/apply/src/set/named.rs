//! Membership of structs whose fields are members.

use machinery_schema::{Node, Schema};

use super::{Entry, FieldSet};
use crate::PathElement;

impl FieldSet {
    /// Returns the set with every declared field that has members below it. Sets do not tell whether a struct
    /// itself is owned, so a struct counts as soon as something in it does. `node` is the place of the set.
    #[must_use]
    pub fn ensure_named_fields(&self, schema: &Schema, node: Option<Node>) -> Self {
        let Some(node) = node else {
            return self.clone();
        };
        let atom = schema.atom(node);
        let entries = self.entries.iter().map(|(element, entry)| {
            let (declared, below) = match (element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => {
                    (map.fields.contains_key(&**name), map.node(name))
                }
                (PathElement::Key(_), _, Some(list)) => (false, Some(list.items)),
                _ => (false, None),
            };
            let member = entry.member || (declared && !entry.children.is_empty());
            (element.clone(), Entry { member, children: entry.children.ensure_named_fields(schema, below) })
        });
        Self { entries: entries.collect() }
    }
}
