//! Reads: of the newest state, of a past one, of the history.

use std::{collections::BTreeMap, ops::Bound};

use redb::{ReadTransaction, ReadableDatabase, ReadableTable};

use super::{
    Shared,
    schema::{COMPACTED, CURRENT, FIRST_REVISION, HISTORY, NUMBERS, REVISION, event, key_value},
};
use crate::{KeyValue, Page, Range, Read, Revisions, StoreError, WatchEvent};

/// Number of changes of the history that one step reads.
const CHUNK: usize = 1_000;

/// Revisions that can be read: the newest and the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) revision: i64,
    pub(super) compacted: i64,
}

impl Span {
    /// Checks that the store can be read, or watched from, at that revision.
    pub(super) fn check(self, requested: i64) -> Result<(), StoreError> {
        if requested > self.revision {
            return Err(StoreError::Future { requested, current: self.revision });
        }
        if requested < self.compacted {
            return Err(StoreError::Compacted { requested, oldest: self.compacted });
        }
        Ok(())
    }
}

pub(super) fn span(numbers: &impl ReadableTable<&'static str, i64>) -> Result<Span, redb::Error> {
    let number = |name| Ok::<_, redb::Error>(numbers.get(name)?.map(|number| number.value()));
    Ok(Span {
        revision: number(REVISION)?.unwrap_or(FIRST_REVISION),
        compacted: number(COMPACTED)?.unwrap_or(FIRST_REVISION),
    })
}

impl Shared {
    fn begin(&self) -> Result<(ReadTransaction, Span), redb::Error> {
        let transaction = self.database.begin_read()?;
        let span = span(&transaction.open_table(NUMBERS)?)?;
        Ok((transaction, span))
    }

    pub(super) fn span(&self) -> Result<Span, redb::Error> {
        Ok(self.begin()?.1)
    }

    pub(super) fn get(&self, key: &str) -> Result<Read, redb::Error> {
        let (transaction, span) = self.begin()?;
        let current = transaction.open_table(CURRENT)?;
        let found = current.get(key)?.map(|held| key_value(key, held.value()));
        Ok(Read { revision: span.revision, found })
    }

    pub(super) fn revisions(&self, keys: &[String]) -> Result<Revisions, redb::Error> {
        let (transaction, span) = self.begin()?;
        let current = transaction.open_table(CURRENT)?;
        let last_change = |key: &String| {
            let found = current.get(key.as_str())?;
            Ok(found.map(|held| key_value(key, held.value()).mod_revision))
        };
        let of: Result<_, redb::Error> = keys.iter().map(last_change).collect();
        Ok(Revisions { revision: span.revision, of: of? })
    }

    /// A page, or what is wrong with the revision asked for.
    pub(super) fn list(&self, range: &Range) -> Result<Result<Page, StoreError>, redb::Error> {
        let (transaction, span) = self.begin()?;
        let revision = range.at_revision.unwrap_or(span.revision);
        if let Err(error) = span.check(revision) {
            return Ok(Err(error));
        }
        let past = changed_since(&transaction, revision, span, &range.prefix)?;
        let mut past = past.iter().skip_while(|(key, _)| Some(*key) <= range.after.as_ref()).peekable();
        let mut page = Filling { limit: range.limit, page: Page { revision, ..Page::default() } };
        let start = match &range.after {
            Some(after) if *after >= range.prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(range.prefix.as_str()),
        };
        let current = transaction.open_table(CURRENT)?;
        for entry in current.range::<&str>((start, Bound::Unbounded))? {
            let (key, held) = entry?;
            let key = key.value();
            if !key.starts_with(&range.prefix) {
                break;
            }
            while let Some((_, before)) = past.next_if(|(changed, _)| changed.as_str() < key) {
                page.add_if_some(before.as_ref());
            }
            match past.next_if(|(changed, _)| changed.as_str() == key) {
                Some((_, before)) => page.add_if_some(before.as_ref()),
                None => page.add(|| key_value(key, held.value())),
            }
        }
        for (_, before) in past {
            page.add_if_some(before.as_ref());
        }
        Ok(Ok(page.page))
    }

    /// Returns the next events under a prefix after a revision, in whole commits, and the revision up to
    /// which they are complete.
    pub(super) fn history(
        &self,
        prefix: &str,
        after_revision: i64,
    ) -> Result<Result<History, StoreError>, redb::Error> {
        let (transaction, span) = self.begin()?;
        if let Err(error) = span.check(after_revision) {
            return Ok(Err(error));
        }
        let mut history = History { events: Vec::new(), up_to: span.revision, complete: true };
        let mut seen = after_revision;
        for (count, entry) in transaction.open_table(HISTORY)?.range((after_revision + 1, 0)..)?.enumerate() {
            let (place, change) = entry?;
            let (revision, _) = place.value();
            if count >= CHUNK && revision != seen {
                history.up_to = seen;
                history.complete = false;
                break;
            }
            seen = revision;
            let change = change.value();
            if change.1.starts_with(prefix) {
                history.events.extend(event(revision, change));
            }
        }
        Ok(Ok(history))
    }
}

/// The keys that were changed after that revision, and what they held at it.
fn changed_since(
    transaction: &ReadTransaction,
    revision: i64,
    span: Span,
    prefix: &str,
) -> Result<BTreeMap<String, Option<KeyValue>>, redb::Error> {
    let mut changed = BTreeMap::new();
    if revision == span.revision {
        return Ok(changed);
    }
    for entry in transaction.open_table(HISTORY)?.range((revision + 1, 0)..)? {
        let (_, change) = entry?;
        let (_, key, _, before) = change.value();
        if key.starts_with(prefix) && !changed.contains_key(key) {
            changed.insert(key.to_owned(), before.map(|before| key_value(key, before)));
        }
    }
    Ok(changed)
}

/// Some of the history.
pub(super) struct History {
    pub(super) events: Vec<WatchEvent>,
    /// Every event up to this revision is in.
    pub(super) up_to: i64,
    /// True if that was the newest revision.
    pub(super) complete: bool,
}

/// A page that is being filled.
struct Filling {
    limit: usize,
    page: Page,
}

impl Filling {
    fn add(&mut self, item: impl FnOnce() -> KeyValue) {
        if self.limit == 0 || self.page.items.len() < self.limit {
            self.page.items.push(item());
        } else {
            self.page.remaining += 1;
        }
    }

    fn add_if_some(&mut self, item: Option<&KeyValue>) {
        if let Some(item) = item {
            self.add(|| item.clone());
        }
    }
}
