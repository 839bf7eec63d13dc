//! Order of the items of a merged list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machinery_schema::{List, Schema};
use serde_json::Value;

use crate::{Invalid, PathElement, typed::items::element_of};

/// An item of the live list and the item of the applied list that merges into it.
pub(super) type Pair<'v> = (Option<&'v Value>, Option<&'v Value>);

/// Items of one list by identity.
struct Index<'v> {
    elements: Vec<PathElement>,
    items: BTreeMap<PathElement, &'v Value>,
}

/// Pairs the items of two lists, in the order of the merged list.
pub(super) fn pair<'v>(
    schema: &Schema,
    list: &List,
    live: &'v [Value],
    applied: &'v [Value],
) -> Result<Vec<Pair<'v>>, Invalid> {
    let mut errors = Invalid::default();
    let right = index(schema, list, applied, false, &mut errors);
    let left = index(schema, list, live, true, &mut errors);
    errors.result(())?;
    Ok(interleave(live, &left, &right))
}

fn index<'v>(
    schema: &Schema,
    list: &List,
    values: &'v [Value],
    allow_duplicates: bool,
    errors: &mut Invalid,
) -> Index<'v> {
    let mut index = Index { elements: Vec::with_capacity(values.len()), items: BTreeMap::new() };
    for (at, item) in values.iter().enumerate() {
        let element = match element_of(schema, list, item) {
            Ok(element) => element,
            Err(reason) => {
                errors.add(format!("element {at}: {reason}"));
                continue;
            }
        };
        let known = index.items.contains_key(&element);
        if known && !allow_duplicates {
            errors.add(format!("duplicate entries for key {element}"));
            continue;
        }
        // Nothing merges with items of one identity: the applied item replaces them all.
        index.items.insert(element.clone(), if known { &Value::Null } else { item });
        index.elements.push(element);
    }
    index
}

fn interleave<'v>(live: &'v [Value], left: &Index<'v>, right: &Index<'v>) -> Vec<Pair<'v>> {
    let mut shared: VecDeque<&PathElement> =
        right.elements.iter().filter(|element| left.items.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut pairs = Vec::with_capacity(left.elements.len().max(right.elements.len()));
    let both = |element: &PathElement| (left.items.get(element).copied(), right.items.get(element).copied());
    let mut ours = left.elements.iter().zip(live).peekable();
    let mut theirs = right.elements.iter().peekable();
    while ours.peek().is_some() || theirs.peek().is_some() {
        if let (Some((element, _)), Some(other)) = (ours.peek().copied(), theirs.peek().copied()) {
            if element == other {
                pairs.push(both(element));
                merged.insert(element);
                ours.next();
                theirs.next();
                next_shared = shared.pop_front();
                continue;
            }
            if right.items.contains_key(element) && next_shared.is_some_and(|next| next != element) {
                // An applied item moves this one to another place.
                ours.next();
                continue;
            }
        }
        if let Some((element, item)) = ours.peek().copied() {
            if !right.items.contains_key(element) {
                pairs.push((Some(item), None));
                ours.next();
                continue;
            }
            if merged.contains(element) {
                ours.next();
            }
        }
        if let Some(element) = theirs.next() {
            pairs.push(both(element));
            merged.insert(element);
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        }
    }
    pairs
}
