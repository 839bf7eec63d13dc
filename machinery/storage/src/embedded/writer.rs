//! The one writer: it carries out the transactions that wait together, and makes them durable with one sync.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::{
    EmbeddedOptions, Shared,
    read::{Span, span},
    schema::{COMPACTED, CURRENT, Change, HISTORY, Held, NUMBERS, REVISION, event, key_value},
    unavailable,
    watch::Commit,
};
use crate::{Operation, Outcome, Precondition, StoreError, Transaction};

/// How many commands are carried out under one sync.
const GROUP: usize = 256;

/// How many changes are taken from the history's old end by each group, besides as many as it adds.
const TRIM: u64 = 256;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked for.
pub(super) enum Command {
    Commit(Transaction, Reply<Outcome>),
    Compact(i64, Reply<()>),
}

/// A reply that is sent once the group is durable.
enum Answer {
    Commit(Reply<Outcome>, Outcome),
    Compact(Reply<()>, Result<(), StoreError>),
}

/// Carries out commands until all senders are gone.
pub(super) fn run(shared: &Arc<Shared>, options: &EmbeddedOptions, mut commands: mpsc::Receiver<Command>) {
    let mut group = Vec::new();
    while let Some(command) = commands.blocking_recv() {
        group.push(command);
        while group.len() < GROUP {
            let Ok(command) = commands.try_recv() else { break };
            group.push(command);
        }
        carry_out(shared, options, &mut group);
    }
    shared.close();
}

fn carry_out(shared: &Shared, options: &EmbeddedOptions, commands: &mut Vec<Command>) {
    let mut group = Group {
        answers: Vec::new(),
        commits: Vec::new(),
        now: now(),
    };
    // What is still in `commands` and `answers` when it fails is told so.
    match group.write(shared, options, commands) {
        Ok(()) => {
            shared.publish(group.commits);
            for answer in group.answers {
                // Whoever asked may have given up.
                match answer {
                    Answer::Commit(reply, outcome) => drop(reply.send(Ok(outcome))),
                    Answer::Compact(reply, result) => drop(reply.send(result)),
                }
            }
        }
        Err(failure) => {
            error!(error = %failure, "the embedded store cannot write");
            let failed = |action| unavailable(action, failure.to_string());
            for answer in group.answers {
                match answer {
                    Answer::Commit(reply, _) => drop(reply.send(Err(failed("commit")))),
                    Answer::Compact(reply, _) => drop(reply.send(Err(failed("compact")))),
                }
            }
            for command in commands.drain(..) {
                match command {
                    Command::Commit(_, reply) => drop(reply.send(Err(failed("commit")))),
                    Command::Compact(_, reply) => drop(reply.send(Err(failed("compact")))),
                }
            }
        }
    }
}

struct Group {
    answers: Vec<Answer>,
    commits: Vec<Arc<Commit>>,
    now: i64,
}

impl Group {
    fn write(
        &mut self,
        shared: &Shared,
        options: &EmbeddedOptions,
        commands: &mut Vec<Command>,
    ) -> Result<(), redb::Error> {
        let write = shared.database.begin_write()?;
        let before;
        let after;
        {
            let mut tables = Tables::open(&write)?;
            before = tables.span()?;
            let mut span = before;
            commands.reverse();
            while let Some(command) = commands.pop() {
                match command {
                    Command::Commit(transaction, reply) => {
                        match tables.commit(transaction, span.revision + 1, self.now) {
                            Ok(Applied::Failed(states)) => {
                                self.answers.push(Answer::Commit(reply, Outcome::Failed(states)));
                            }
                            Ok(Applied::Committed(commit)) => {
                                if !commit.events.is_empty() {
                                    span.revision += 1;
                                    self.commits.push(Arc::new(commit));
                                }
                                let outcome = Outcome::Committed(span.revision);
                                self.answers.push(Answer::Commit(reply, outcome));
                            }
                            Err(failure) => {
                                // The group fails as a whole, this one with it.
                                self.answers
                                    .push(Answer::Commit(reply, Outcome::Failed(Vec::new())));
                                return Err(failure);
                            }
                        }
                    }
                    Command::Compact(revision, reply) => {
                        let result = can_compact(span, revision);
                        if result.is_ok() {
                            span.compacted = revision;
                        }
                        self.answers.push(Answer::Compact(reply, result));
                    }
                }
            }
            tables.trim(&mut span, options, self.now)?;
            tables.forget(before, span)?;
            tables.set(span)?;
            after = span;
        }
        if (after.revision, after.compacted) == (before.revision, before.compacted) {
            write.abort()?;
        } else {
            write.commit()?;
        }
        Ok(())
    }
}

fn can_compact(span: Span, revision: i64) -> Result<(), StoreError> {
    if revision <= span.compacted {
        return Err(StoreError::Compacted {
            requested: revision,
            oldest: span.compacted,
        });
    }
    span.check(revision)
}

enum Applied {
    Failed(Vec<Option<crate::KeyValue>>),
    Committed(Commit),
}

struct Tables<'a> {
    current: Table<'a, &'static str, Held<'static>>,
    history: Table<'a, (i64, u32), Change<'static>>,
    numbers: Table<'a, &'static str, i64>,
}

impl<'a> Tables<'a> {
    fn open(write: &'a WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            current: write.open_table(CURRENT)?,
            history: write.open_table(HISTORY)?,
            numbers: write.open_table(NUMBERS)?,
        })
    }

    fn span(&self) -> Result<Span, redb::Error> {
        span(&self.numbers)
    }

    fn set(&mut self, span: Span) -> Result<(), redb::Error> {
        self.numbers.insert(REVISION, span.revision)?;
        self.numbers.insert(COMPACTED, span.compacted)?;
        Ok(())
    }

    fn commit(&mut self, transaction: Transaction, revision: i64, now: i64) -> Result<Applied, redb::Error> {
        if let Some(states) = self.failed(&transaction.preconditions)? {
            return Ok(Applied::Failed(states));
        }
        let mut events = Vec::new();
        for operation in Operation::effective(transaction.operations) {
            let key = operation.key();
            let found = self.current.get(key)?;
            let before = found.as_ref().map(|held| held.value());
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
    fn failed(
        &self,
        preconditions: &[Precondition],
    ) -> Result<Option<Vec<Option<crate::KeyValue>>>, redb::Error> {
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
    fn trim(&self, span: &mut Span, options: &EmbeddedOptions, now: i64) -> Result<(), redb::Error> {
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
    fn forget(&mut self, before: Span, span: Span) -> Result<(), redb::Error> {
        if span.compacted > before.compacted {
            self.history
                .retain_in(..=(span.compacted, u32::MAX), |_, _| false)?;
        }
        Ok(())
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
