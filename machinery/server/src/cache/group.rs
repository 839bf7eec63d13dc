//! Readers of one part of the keys, by what they see of it.

use std::collections::{BTreeMap, HashMap};

use super::{change::Change, entry::Head, queue::Sender, scope::Scope};
use crate::Object;

/// Value of a selectable field. A reader who sees no object with another value is not told of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    /// Place of the field in the kind's list.
    pub(crate) at: usize,
    pub(crate) value: String,
}

impl FieldValue {
    /// Returns true when an object has this value.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        head.field(self.at) == self.value
    }
}

/// Reader of changes.
#[derive(Debug)]
pub(super) struct Subscriber<O> {
    pub(super) scope: Scope,
    pub(super) sender: Sender<O>,
}

type Readers<O> = HashMap<u64, Subscriber<O>>;

/// Readers of one part of the keys, each under its number.
#[derive(Debug)]
pub(super) struct Group<O> {
    /// Readers of all objects in the part.
    all: Readers<O>,
    /// Readers of the objects with one value of a field, by the field's place and that value.
    by_value: BTreeMap<usize, HashMap<String, Readers<O>>>,
}

impl<O> Default for Group<O> {
    fn default() -> Self {
        Self { all: HashMap::new(), by_value: BTreeMap::new() }
    }
}

impl<O> Group<O> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_value.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.by_value.values().flat_map(HashMap::values).map(HashMap::len).sum::<usize>()
    }

    pub(super) fn insert(&mut self, number: u64, field: Option<FieldValue>, subscriber: Subscriber<O>) {
        let readers = match field {
            None => &mut self.all,
            Some(FieldValue { at, value }) => self.by_value.entry(at).or_default().entry(value).or_default(),
        };
        readers.insert(number, subscriber);
    }

    /// Removes a reader. Returns false when there is no such one.
    pub(super) fn remove(&mut self, number: u64, field: Option<&FieldValue>) -> bool {
        let Some(FieldValue { at, value }) = field else {
            return self.all.remove(&number).is_some();
        };
        let Some(values) = self.by_value.get_mut(at) else { return false };
        let Some(readers) = values.get_mut(value) else { return false };
        let removed = readers.remove(&number).is_some();
        if readers.is_empty() {
            values.remove(value);
        }
        if values.is_empty() {
            self.by_value.remove(at);
        }
        removed
    }

    /// Keeps the readers for which `stays` is true. Returns the number of those that it removed.
    pub(super) fn retain(&mut self, stays: impl Fn(&Subscriber<O>) -> bool) -> usize {
        let by_value = self.by_value.values_mut().flat_map(HashMap::values_mut);
        let removed = std::iter::once(&mut self.all).chain(by_value).map(|readers| retain(readers, &stays));
        let removed = removed.sum();
        self.prune();
        removed
    }

    /// Forgets the values without a reader.
    fn prune(&mut self) {
        self.by_value.retain(|_, values| {
            values.retain(|_, readers| !readers.is_empty());
            !values.is_empty()
        });
    }
}

impl<O: Object> Group<O> {
    /// Keeps, of the readers that may see a change, those for which `stays` is true. Returns the number of
    /// those that it removed.
    pub(super) fn retain_of(&mut self, change: &Change<O>, stays: impl Fn(&Subscriber<O>) -> bool) -> usize {
        let mut removed = retain(&mut self.all, &stays);
        let entries = [&change.previous, &change.current].map(Option::as_ref);
        for (at, values) in &mut self.by_value {
            let [was, is] = entries.map(|entry| entry.map(|entry| entry.head().field(*at)));
            // A reader of the value before learns that the object left.
            for value in [was.filter(|_| was != is), is].into_iter().flatten() {
                removed += values.get_mut(value).map_or(0, |readers| retain(readers, &stays));
            }
        }
        if removed > 0 {
            self.prune();
        }
        removed
    }
}

fn retain<O>(readers: &mut Readers<O>, stays: &impl Fn(&Subscriber<O>) -> bool) -> usize {
    let before = readers.len();
    readers.retain(|_, subscriber| stays(subscriber));
    before - readers.len()
}
