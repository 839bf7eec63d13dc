//! Operations on two sets. None takes more than the time to walk the set that is kept, or the smaller one:
//! objects can have many managers.

use std::cmp::Ordering;

use super::{Entry, FieldSet};
use crate::PathElement;

impl FieldSet {
    /// Returns the members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let united = zip(self, other).map(|(element, left, right)| {
            let entry = match (left, right) {
                (Some(left), Some(right)) => Entry {
                    member: left.member || right.member,
                    children: left.children.union(&right.children),
                },
                (Some(only), None) | (None, Some(only)) => only.clone(),
                (None, None) => Entry::default(),
            };
            (element.clone(), entry)
        });
        Self { entries: united.collect() }
    }

    /// Adds the members of another set.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (element, entry) in &other.entries {
            let own = self.entries.entry(element.clone()).or_default();
            own.member |= entry.member;
            own.children.absorb(&entry.children);
        }
    }

    /// Returns the members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) =
            if self.entries.len() <= other.entries.len() { (self, other) } else { (other, self) };
        let shared = few.entries.iter().filter_map(|(element, left)| {
            let right = many.entries.get(element)?;
            let entry = Entry {
                member: left.member && right.member,
                children: left.children.intersection(&right.children),
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self { entries: shared.collect() }
    }

    /// Returns the members that the other set lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let left_over = self.entries.iter().filter_map(|(element, left)| {
            let entry = match other.entries.get(element) {
                None => left.clone(),
                Some(right) => Entry {
                    member: left.member && !right.member,
                    children: left.children.difference(&right.children),
                },
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self { entries: left_over.collect() }
    }

    /// Returns the members that neither are in the other set nor lie below a member of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let left_over = self.entries.iter().filter_map(|(element, left)| {
            let entry = match other.entries.get(element) {
                None => left.clone(),
                Some(right) if right.member => return None,
                Some(right) => Entry {
                    member: left.member,
                    children: left.children.recursive_difference(&right.children),
                },
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self { entries: left_over.collect() }
    }

    /// Returns the members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let leaves = self.entries.iter().map(|(element, entry)| {
            let entry = Entry {
                member: entry.member && entry.children.is_empty(),
                children: entry.children.leaves(),
            };
            (element.clone(), entry)
        });
        Self { entries: leaves.collect() }
    }
}

type Pair<'a> = (&'a PathElement, Option<&'a Entry>, Option<&'a Entry>);

/// Walks two sets in their common order.
fn zip<'a>(left: &'a FieldSet, right: &'a FieldSet) -> impl Iterator<Item = Pair<'a>> {
    let (mut left, mut right) = (left.entries.iter().peekable(), right.entries.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let first = if order.is_le() { left.next() } else { None };
        let second = if order.is_ge() { right.next() } else { None };
        let (element, _) = first.or(second)?;
        Some((element, first.map(|(_, entry)| entry), second.map(|(_, entry)| entry)))
    })
}
