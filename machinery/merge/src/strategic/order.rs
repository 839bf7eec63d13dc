//! The order of merged lists: first what the patch says, then the object's own.
//!
//! Source: `normalizeElementOrder` in `k8s.io/apimachinery/pkg/util/strategicpatch/patch.go`.

use serde_json::Value;

use super::items::Identity;
use crate::PatchError;

/// Item of a merged list.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Value,
    /// Place in the object's list. A new item has none.
    place: Option<usize>,
}

impl Item {
    /// Returns an item of the object.
    pub(super) fn live((place, value): (usize, Value)) -> Self {
        Self { value, place: Some(place) }
    }

    /// Returns an item that the object lacks.
    pub(super) fn new(value: Value) -> Self {
        Self { value, place: None }
    }

    fn was_before(&self, other: &Self) -> bool {
        self.place.is_some_and(|place| other.place.is_none_or(|other| place < other))
    }
}

/// Refuses an order that lacks items of the patch, or has them in another order.
pub(super) fn check(
    items: &[&Value],
    order: &[Value],
    identity: Identity<'_>,
    at: &str,
) -> Result<(), PatchError> {
    let mut order = order.iter();
    for item in items {
        if !order.any(|place| identity.is_same(place, item)) {
            let reason = "the order of its items is not that of $setElementOrder".to_owned();
            return Err(PatchError::Unmergeable { path: at.to_owned(), reason });
        }
    }
    Ok(())
}

/// Sorts items. Those that `order` does not name keep their order, and their place before and after the
/// others as far as it goes. A new item stands before the item of the object that follows it in `order`, or
/// at the end.
pub(super) fn sorted(items: Vec<Item>, order: &[&Value], identity: Identity<'_>) -> Vec<Value> {
    let mut named = Vec::new();
    let mut others = Vec::with_capacity(items.len());
    for item in items {
        match order.iter().position(|place| identity.is_same(&item.value, place)) {
            Some(place) => named.push((place, item)),
            None => others.push(item),
        }
    }
    named.sort_by_key(|(place, _)| *place);
    let mut next = None;
    for (_, item) in named.iter_mut().rev() {
        item.place = item.place.or(next);
        next = item.place;
    }
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, item) in named {
        while let Some(other) = others.next_if(|other| other.was_before(&item)) {
            sorted.push(other.value);
        }
        sorted.push(item.value);
    }
    sorted.extend(others.map(|other| other.value));
    sorted
}
