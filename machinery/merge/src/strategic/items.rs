//! The merge of lists, item by item.

use machinery_schema::{List, ListKind, ListPatch};
use serde_json::{Map, Value};

use super::{
    directive::Directive,
    order::{self, Item},
};
use crate::PatchError;

/// Identity of the items of a list that is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'s> {
    /// Field that every item has. Without it, items are scalars.
    key: Option<&'s str>,
    /// Further fields of the identity.
    others: &'s [String],
}

impl<'s> Identity<'s> {
    pub(super) fn of(list: &'s List) -> Self {
        let key = match &list.patch {
            ListPatch::MergeBy(key) => Some(key.as_str()),
            ListPatch::MergeScalars | ListPatch::Replace => None,
        };
        let others = match &list.kind {
            ListKind::Map(keys) => keys.as_slice(),
            ListKind::Atomic | ListKind::Set => &[],
        };
        Self { key, others }
    }

    /// Returns true for two items with the same identity.
    pub(super) fn is_same(&self, one: &Value, other: &Value) -> bool {
        let Some(key) = self.key else { return one == other };
        let agree = |key: &String| match (present(one, key), present(other, key)) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        present(one, key).is_some_and(|value| Some(value) == present(other, key))
            && self.others.iter().all(agree)
    }

    /// Refuses an item without identity, and one that would take a field of it from the object's item.
    fn check(&self, item: &Value, at: &str) -> Result<(), PatchError> {
        let Some(key) = self.key else { return check_scalar(item, at) };
        if item.get(key).is_none_or(Value::is_null) {
            return Err(unmergeable(at, format!("an item lacks its merge key {key:?}")));
        }
        match self.others.iter().find(|other| item.get(other.as_str()).is_some_and(Value::is_null)) {
            Some(other) => Err(unmergeable(at, format!("an item removes its key {other:?}"))),
            None => Ok(()),
        }
    }

    /// Refuses an item of a patch that fits another one of the patch, or more than one of the object's: which
    /// one is meant would depend on their order.
    fn check_unique(
        &self,
        item: &Value,
        others: &[&Value],
        live: &[Item],
        at: &str,
    ) -> Result<(), PatchError> {
        let Some(key) = self.key else { return Ok(()) };
        let fits = live.iter().filter(|live| self.is_same(&live.value, item)).count();
        if fits <= 1 && !others.iter().any(|other| self.is_same(other, item)) {
            return Ok(());
        }
        let keys = self.others.iter().filter(|other| *other != key && present(item, other).is_none());
        let lacking: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        let value = present(item, key).unwrap_or(&Value::Null);
        let reason = match lacking.as_slice() {
            [] => format!("two items have the {key:?} {value}"),
            lacking => format!(
                "the item with the {key:?} {value} fits more than one: it lacks {}",
                lacking.join(", ")
            ),
        };
        Err(unmergeable(at, reason))
    }
}

/// Refuses an item of a list of scalars that is none.
pub(super) fn check_scalar(item: &Value, at: &str) -> Result<(), PatchError> {
    if item.is_object() || item.is_array() {
        return Err(unmergeable(at, "an item is no scalar".to_owned()));
    }
    Ok(())
}

fn unmergeable(at: &str, reason: String) -> PatchError {
    PatchError::Unmergeable { path: at.to_owned(), reason }
}

/// Returns a field of an item, if it has a value.
fn present<'i>(item: &'i Value, key: &str) -> Option<&'i Value> {
    item.get(key).filter(|value| !value.is_null())
}

/// Merges the items of a patch into the object's, and sorts them. `merge` merges two maps.
pub(super) fn merge(
    old: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    identity: Identity<'_>,
    at: &str,
    mut merge: impl FnMut(&mut Map<String, Value>, &Map<String, Value>) -> Result<(), PatchError>,
) -> Result<Vec<Value>, PatchError> {
    let mut items: Vec<Item> = old.into_iter().enumerate().map(Item::live).collect();
    let mut wanted = Vec::new();
    let mut deleted = Vec::new();
    for item in patch {
        let directive = item.as_object().map(|item| Directive::of(item, at)).transpose()?.flatten();
        match directive {
            Some(Directive::Replace) => items.clear(),
            Some(Directive::Delete) => deleted.push(item),
            None => wanted.push(item),
        }
    }
    for item in deleted {
        identity.check(item, at)?;
        items.retain(|live| !identity.is_same(&live.value, item));
    }
    for (place, item) in wanted.iter().enumerate() {
        identity.check(item, at)?;
        identity.check_unique(item, wanted.get(..place).unwrap_or_default(), &items, at)?;
        match (items.iter_mut().find(|live| identity.is_same(&live.value, item)), item) {
            (Some(Item { value: Value::Object(live), .. }), Value::Object(patch)) => merge(live, patch)?,
            (Some(_), _) => {}
            (None, Value::Object(patch)) => {
                let mut new = Map::new();
                merge(&mut new, patch)?;
                items.push(Item::new(Value::Object(new)));
            }
            (None, scalar) => items.push(Item::new((*scalar).clone())),
        }
    }
    match order {
        None => Ok(order::sorted(items, &wanted, identity)),
        Some(order) => {
            for item in order {
                identity.check(item, at)?;
            }
            order::check(&wanted, order, identity, at)?;
            Ok(order::sorted(items, &order.iter().collect::<Vec<_>>(), identity))
        }
    }
}
