//! The merge of maps, field by field.

use std::collections::BTreeSet;

use machinery_schema::{ListPatch, Node, Schema};
use serde_json::{Map, Value};

use super::{
    MAX_STRATEGIC_COMPARISONS, MAX_STRATEGIC_PATCH_ITEMS,
    directive::{self, Directive, ListChange},
    items::{self, Identity},
};
use crate::PatchError;

/// Merge of one patch.
pub(super) struct Merge<'s> {
    schema: &'s Schema,
    /// Items of merged lists and of `$retainKeys` so far.
    items: usize,
    /// Comparisons of items so far.
    comparisons: usize,
    /// True after a part of the object was removed as a whole.
    removed_unnamed: bool,
}

impl<'s> Merge<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, items: 0, comparisons: 0, removed_unnamed: false }
    }

    /// Returns true when items of lists can be gone that the patch has not named.
    pub(super) fn removed_unnamed(&self) -> bool {
        self.removed_unnamed
    }

    /// Merges a map of a patch into the object's. `node` is its place in the schema, where that is known.
    pub(super) fn map(
        &mut self,
        live: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        node: Option<Node>,
        at: &str,
    ) -> Result<(), PatchError> {
        if let Some(directive) = Directive::of(patch, at)? {
            self.removed_unnamed = true;
            *live = match directive {
                Directive::Replace => directive::new_fields(patch),
                Directive::Delete => Map::new(),
            };
            return Ok(());
        }
        if let Some(kept) = directive::retained(patch, at)? {
            self.count(kept.len(), 0, at)?;
            let before = live.len();
            directive::retain_keys(live, patch, kept, at)?;
            self.removed_unnamed |= live.len() < before;
        }
        let mut lists = BTreeSet::new();
        for (key, value) in patch {
            lists.extend(directive::field_of_list(key, value, at)?);
        }
        for (key, value) in directive::fields(patch) {
            match (value, live.get_mut(key)) {
                (Value::Null, _) => {
                    self.removed_unnamed |= live.remove(key).is_some_and(|old| is_nested(&old));
                }
                (Value::Object(patch), Some(Value::Object(live))) => {
                    self.map(live, patch, self.field(node, key), &child(at, key))?;
                }
                (Value::Array(_), _) => {
                    lists.insert(key);
                }
                (Value::Object(patch), _) => {
                    self.removed_unnamed |= live.remove(key).is_some_and(|old| is_nested(&old));
                    if let Some(new) = self.new_map(patch, self.field(node, key), &child(at, key))? {
                        live.insert(key.clone(), new);
                    }
                }
                _ => {
                    let old = live.insert(key.clone(), value.clone());
                    self.removed_unnamed |= old.is_some_and(|old| is_nested(&old));
                }
            }
        }
        for key in lists {
            self.field_list(live, patch, key, self.field(node, key), &child(at, key))?;
        }
        Ok(())
    }

    /// Returns a map that the object lacks: the patch merged into nothing, so that its lists keep the same
    /// rules as elsewhere. None for a map with the directive `$patch`.
    fn new_map(
        &mut self,
        patch: &Map<String, Value>,
        node: Option<Node>,
        at: &str,
    ) -> Result<Option<Value>, PatchError> {
        if Directive::of(patch, at)?.is_some() {
            return Ok(None);
        }
        let mut new = Map::new();
        self.map(&mut new, patch, node, at)?;
        Ok(Some(Value::Object(new)))
    }

    /// Merges what a patch says of one list.
    fn field_list(
        &mut self,
        live: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        key: &str,
        node: Option<Node>,
        at: &str,
    ) -> Result<(), PatchError> {
        let Some(change) = ListChange::of(patch, key) else { return Ok(()) };
        let old = match live.get_mut(key) {
            Some(Value::Array(items)) => std::mem::take(items),
            // An order or a removal alone makes no list.
            _ if change.items.is_none() => return Ok(()),
            other => {
                self.removed_unnamed |= other.is_some_and(|old| is_nested(old));
                Vec::new()
            }
        };
        let new = self.list(old, change, node, at)?;
        live.insert(key.to_owned(), Value::Array(new));
        Ok(())
    }

    fn list(
        &mut self,
        mut old: Vec<Value>,
        change: ListChange<'_>,
        node: Option<Node>,
        at: &str,
    ) -> Result<Vec<Value>, PatchError> {
        let schema = self.schema;
        let list = node.and_then(|node| schema.atom(node).list.as_ref());
        let merged = list.filter(|list| list.patch != ListPatch::Replace);
        if merged.is_some() || !change.removed.is_empty() {
            self.count(change.len(), old.len(), at)?;
        }
        for item in change.removed {
            items::check_scalar(item, at)?;
        }
        old.retain(|item| !change.removed.contains(item));
        let Some(list) = merged else {
            let items = change.items.map(|items| items.iter().filter_map(directive::new_value).collect());
            return Ok(items.unwrap_or(old));
        };
        let (items, identity) = (change.items.unwrap_or_default(), Identity::of(list));
        self.removed_unnamed |= directive::replaces(items);
        items::merge(old, items, change.order, identity, at, |live, patch| {
            self.map(live, patch, Some(list.items), at)
        })
    }

    /// Counts items of a list or of `$retainKeys`, and their comparisons with the `live` items of the object.
    fn count(&mut self, items: usize, live: usize, at: &str) -> Result<(), PatchError> {
        self.items += items;
        if self.items > MAX_STRATEGIC_PATCH_ITEMS {
            return Err(PatchError::TooManyItems { path: at.to_owned(), limit: MAX_STRATEGIC_PATCH_ITEMS });
        }
        self.comparisons = self.comparisons.saturating_add(items.saturating_mul(live));
        if self.comparisons > MAX_STRATEGIC_COMPARISONS {
            let limit = MAX_STRATEGIC_COMPARISONS;
            return Err(PatchError::TooManyComparisons { path: at.to_owned(), limit });
        }
        Ok(())
    }

    fn field(&self, node: Option<Node>, key: &str) -> Option<Node> {
        self.schema.atom(node?).map.as_ref()?.node(key)
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn child(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}
