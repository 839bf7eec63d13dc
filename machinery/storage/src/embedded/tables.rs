//! The tables as a write changes them.

use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{
    EmbeddedOptions,
    read::{Span, span},
    schema::{COMPACTED, CURRENT, Change, HISTORY, Held, NUMBERS, REVISION, event, key_value},
    watch::Commit,
};
use crate::{KeyValue, Operation, Precondition, Transaction};

/// Minimum number of changes that each write may remove from the old end of the history.
const TRIM: u64 = 256;

/// Result of a transaction.
pub(super) enum Applied {
    /// The states of its preconditions' keys.
    Failed(Vec<Option<KeyValue>>),
    /// Its events; none if it changed nothing.
    Committed(Commit),
}

/// The tables, in a write that is under way.
pub(super) struct Tables<'a> {
    current: Table<'a, &'static str, Held<'static>>,
    history: Table<'a, (i64, u32), Change<'static>>,
    numbers: Table<'a, &'static str, i64>,
}

impl<'a> Tables<'a> {
    pub(super) fn open(write: &'a WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            current: write.open_table(CURRENT)?,
            history: write.open_table(HISTORY)?,
            numbers: write.open_table(NUMBERS)?,
        })
    }

    pub(super) fn span(&self) -> Result<Span, redb::Error> {
        span(&self.numbers)
    }

    pub(super) fn set(&mut self, span: Span) -> Result<(), redb::Error> {
        self.numbers.insert(REVISION, span.revision)?;
        self.numbers.insert(COMPACTED, span.compacted)?;
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        transaction: Transaction,
        revision: i64,
        now: i64,
    ) -> Result<Applied, redb::Error> {
        if let Some(states) = self.failed(&transaction.preconditions)? {
            return Ok(Applied::Failed(states));
        }
        let mut events = Vec::new();
        for operation in Operation::effective(transaction.operations) {
            let key = operation.key();
            let found = self.current.get(key)?;
            let before = found.as_ref().map(redb::AccessGuard::value);
            let after = match &operation {
                Operation::Put(_, value) => {
                    Some((before.map_or(revision, |(created, _, _)| created), value.as_ref()))
                }
                Operation::Delete(_) => None,
            };
            let change = (now, key, after, before);
            let Some(event) = event(revision, change) else {
                continue;
            };
            let place = u32::try_from(events.len()).unwrap_or(u32::MAX);
            self.history.insert((revision, place), change)?;
            drop(found);
            match after {
                Some((created, value)) => drop(self.current.insert(key, (created, revision, value))?),
                None => drop(self.current.remove(key)?),
            }
            events.push(event);
        }
        Ok(Applied::Committed(Commit { revision, events }))
    }

    /// The present states of the preconditions' keys, when one of them does not hold.
    fn failed(&self, preconditions: &[Precondition]) -> Result<Option<Vec<Option<KeyValue>>>, redb::Error> {
        let mut hold = true;
        for precondition in preconditions {
            let found = self.current.get(precondition.key())?;
            let mod_revision = found.map(|held| held.value().1);
            hold &= match precondition {
                Precondition::Absent(_) => mod_revision.is_none(),
                Precondition::Unchanged(_, revision) => mod_revision == Some(*revision),
            };
        }
        if hold {
            return Ok(None);
        }
        let mut states = Vec::with_capacity(preconditions.len());
        for precondition in preconditions {
            let key = precondition.key();
            states.push(self.current.get(key)?.map(|held| key_value(key, held.value())));
        }
        Ok(Some(states))
    }

    /// Moves the oldest revision that can be read on, past what is too old or too much.
    pub(super) fn trim(
        &self,
        span: &mut Span,
        options: &EmbeddedOptions,
        now: i64,
    ) -> Result<(), redb::Error> {
        let age = i64::try_from(options.history_age.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(age);
        let mut left = self.history.len()?;
        let excess = left.saturating_sub(options.history_events);
        let mut budget = excess.max(TRIM);
        for entry in self.history.iter()? {
            let (place, change) = entry?;
            if budget == 0 || (left <= options.history_events && change.value().0 >= oldest) {
                break;
            }
            span.compacted = span.compacted.max(place.value().0);
            left -= 1;
            budget -= 1;
        }
        Ok(())
    }

    /// Removes the history that can no longer be read.
    pub(super) fn forget(&mut self, before: Span, span: Span) -> Result<(), redb::Error> {
        if span.compacted > before.compacted {
            self.history.retain_in(..=(span.compacted, u32::MAX), |_, _| false)?;
        }
        Ok(())
    }
}
