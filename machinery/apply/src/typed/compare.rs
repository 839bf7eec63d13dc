//! Differences between two documents.

use std::collections::BTreeMap;

use machinery_schema::{List, Map, Node, Schema};
use serde_json::{Map as Object, Value};

use super::{
    items::element_of,
    shape::{Shape, scalar_mismatch, shape},
};
use crate::{FieldSet, Invalid, PathElement, value};

/// Differences between two documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the old document has.
    pub removed: FieldSet,
    /// Fields that both have with different values.
    pub modified: FieldSet,
    /// Fields that only the new document has.
    pub added: FieldSet,
}

impl Comparison {
    /// Returns whether there are no differences.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Leaves out fields and all that lies below them.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// Compares two documents field by field; atomic lists and maps are compared as a whole.
///
/// Items of one identity are compared as if they were one atomic value.
///
/// # Errors
///
/// [`Invalid`] when a list has an item without identity or a value has an unexpected type on both sides.
pub fn compare(schema: &Schema, old: &Value, new: &Value) -> Result<Comparison, Invalid> {
    let mut walk = Walk { schema, path: Vec::new(), comparison: Comparison::default() };
    walk.value(Some(schema.root()), Some(old), Some(new))?;
    Ok(walk.comparison)
}

struct Walk<'s> {
    schema: &'s Schema,
    path: Vec<PathElement>,
    comparison: Comparison,
}

/// True when the value was compared as a whole.
type Leaf = bool;

impl<'s> Walk<'s> {
    fn value(&mut self, node: Option<Node>, old: Option<&Value>, new: Option<&Value>) -> Result<(), Invalid> {
        let left = shape(self.schema, node, old);
        let right = shape(self.schema, node, new);
        let leaf = if new.is_none() {
            self.shaped(left, old, new)?
        } else if old.is_none() || left.is_same_kind(right) {
            self.shaped(right, old, new)?
        } else {
            self.shaped(left, old, new)?;
            self.shaped(right, old, new)?
        };
        match (leaf, old, new) {
            (false, None, _) => self.comparison.added.insert(&self.path),
            (false, _, None) => self.comparison.removed.insert(&self.path),
            _ => {}
        }
        Ok(())
    }

    fn shaped(
        &mut self,
        shape: Shape<'s>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<Leaf, Invalid> {
        match shape {
            Shape::Scalar(scalar) => {
                let old_mismatch = scalar_mismatch(scalar, old, "lhs: ");
                if let (Some(left), Some(right)) = (old_mismatch, scalar_mismatch(scalar, new, "rhs: ")) {
                    let mut errors = Invalid::default();
                    errors.add(left);
                    errors.add(right);
                    return Err(errors);
                }
                Ok(self.leaf(old, new))
            }
            Shape::List(list) => {
                let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                if list.is_atomic() || items(old) + items(new) == 0 {
                    return Ok(self.leaf(old, new));
                }
                self.items(list, old.and_then(Value::as_array), new.and_then(Value::as_array))
            }
            Shape::Map(map) => {
                let fields =
                    |value: Option<&'_ Value>| value.and_then(Value::as_object).map_or(0, Object::len);
                if map.atomic || fields(old) + fields(new) == 0 {
                    return Ok(self.leaf(old, new));
                }
                self.fields(map, old.and_then(Value::as_object), new.and_then(Value::as_object))
            }
            Shape::Nothing => {
                let mut errors = Invalid::default();
                errors.add("schema error: invalid atom: inlined");
                Err(errors)
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> Leaf {
        match (old, new) {
            (None, _) => self.comparison.added.insert(&self.path),
            (_, None) => self.comparison.removed.insert(&self.path),
            (Some(old), Some(new)) if !value::equal(old, new) => self.comparison.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn below(
        &mut self,
        element: PathElement,
        node: Option<Node>,
        old: Option<&Value>,
        new: Option<&Value>,
        errors: &mut Invalid,
    ) {
        self.path.push(element);
        let result = self.value(node, old, new);
        if let (Some(element), Err(below)) = (self.path.pop(), result) {
            errors.add_below(&element, below);
        }
    }

    fn fields(
        &mut self,
        map: &'s Map,
        old: Option<&Object<String, Value>>,
        new: Option<&Object<String, Value>>,
    ) -> Result<Leaf, Invalid> {
        let mut errors = Invalid::default();
        for (name, before) in old.into_iter().flatten() {
            let after = new.and_then(|new| new.get(name));
            self.below(PathElement::field(name), map.node(name), Some(before), after, &mut errors);
        }
        for (name, after) in new.into_iter().flatten() {
            if !old.is_some_and(|old| old.contains_key(name)) {
                self.below(PathElement::field(name), map.node(name), None, Some(after), &mut errors);
            }
        }
        errors.result(false)
    }

    fn items(
        &mut self,
        list: &'s List,
        old: Option<&Vec<Value>>,
        new: Option<&Vec<Value>>,
    ) -> Result<Leaf, Invalid> {
        let mut errors = Invalid::default();
        let mut items: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, values) in [old, new].into_iter().enumerate() {
            for (at, item) in values.into_iter().flatten().enumerate() {
                match element_of(self.schema, list, item) {
                    Ok(element) => {
                        let sides = items.entry(element).or_default();
                        sides.get_mut(side).into_iter().for_each(|side| side.push(item));
                    }
                    Err(reason) => errors.add(format!("element {at}: {reason}")),
                }
            }
        }
        for (element, [before, after]) in items {
            self.items_of_one_identity(list, element, &before, &after, &mut errors);
        }
        errors.result(false)
    }

    fn items_of_one_identity(
        &mut self,
        list: &'s List,
        element: PathElement,
        before: &[&Value],
        after: &[&Value],
        errors: &mut Invalid,
    ) {
        let node = Some(list.items);
        let marked = match (before, after) {
            ([], []) => return,
            ([] | [_], [] | [_]) => {
                let (before, after) = (before.first().copied(), after.first().copied());
                return self.below(element, node, before, after, errors);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len()
                    && before.iter().zip(after).all(|(before, after)| value::equal(before, after));
                if same {
                    return;
                }
                &mut self.comparison.modified
            }
            (_, [] | [_]) => {
                if let Some(after) = after.first() {
                    self.below(element.clone(), node, None, Some(after), errors);
                }
                &mut self.comparison.removed
            }
            ([] | [_], _) => {
                if let Some(before) = before.first() {
                    self.below(element.clone(), node, Some(before), None, errors);
                }
                &mut self.comparison.added
            }
        };
        self.path.push(element);
        marked.insert(&self.path);
        self.path.pop();
    }
}
