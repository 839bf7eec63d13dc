//! The one writer: it carries out the transactions that wait together, and makes them durable with one sync.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::{
    EmbeddedOptions, Shared,
    read::Span,
    tables::{Applied, Tables},
    unavailable,
    watch::Commit,
};
use crate::{Outcome, StoreError, Transaction};

/// Maximum number of commands under one sync.
const GROUP: usize = 256;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Command for the writer.
pub(super) enum Command {
    Commit(Transaction, Reply<Outcome>),
    Compact(i64, Reply<()>),
}

impl Command {
    /// Reports to the caller that the command failed.
    fn fail(self, failure: &redb::Error) {
        // The caller may have given up. Here and below, a failed report is not an error.
        match self {
            Self::Commit(_, reply) => drop(reply.send(Err(unavailable("commit", failure.to_string())))),
            Self::Compact(_, reply) => drop(reply.send(Err(unavailable("compact", failure.to_string())))),
        }
    }
}

/// A reply that is sent once the group is durable.
enum Answer {
    Commit(Reply<Outcome>, Outcome),
    Compact(Reply<()>, Result<(), StoreError>),
}

impl Answer {
    fn send(self) {
        match self {
            Self::Commit(reply, outcome) => drop(reply.send(Ok(outcome))),
            Self::Compact(reply, result) => drop(reply.send(result)),
        }
    }

    fn fail(self, failure: &redb::Error) {
        match self {
            Self::Commit(reply, _) => Command::Commit(Transaction::default(), reply).fail(failure),
            Self::Compact(reply, _) => Command::Compact(0, reply).fail(failure),
        }
    }
}

/// Carries out commands until all senders are gone.
pub(super) fn run(shared: &Arc<Shared>, options: &EmbeddedOptions, mut commands: mpsc::Receiver<Command>) {
    let mut waiting = VecDeque::new();
    while let Some(command) = commands.blocking_recv() {
        waiting.push_back(command);
        while waiting.len() < GROUP {
            let Ok(command) = commands.try_recv() else { break };
            waiting.push_back(command);
        }
        let mut group = Group::default();
        match group.write(shared, options, &mut waiting) {
            Ok(()) => {
                shared.publish(group.commits);
                group.answers.into_iter().for_each(Answer::send);
            }
            Err(failure) => {
                error!(error = %failure, "the embedded store cannot write");
                group.answers.into_iter().for_each(|answer| answer.fail(&failure));
                waiting.drain(..).for_each(|command| command.fail(&failure));
            }
        }
    }
    shared.close();
}

/// Commits under one sync, in the order of their revisions. They happen as a whole or not at all.
#[derive(Default)]
struct Group {
    answers: Vec<Answer>,
    commits: Vec<Arc<Commit>>,
}

impl Group {
    fn write(
        &mut self,
        shared: &Shared,
        options: &EmbeddedOptions,
        waiting: &mut VecDeque<Command>,
    ) -> Result<(), redb::Error> {
        let write = shared.database.begin_write()?;
        let now = now();
        let mut tables = Tables::open(&write)?;
        let before = tables.span()?;
        let mut span = before;
        while let Some(command) = waiting.pop_front() {
            self.carry_out(command, &mut tables, &mut span, now)?;
        }
        tables.trim(&mut span, options, now)?;
        tables.forget(before, span)?;
        tables.set(span)?;
        drop(tables);
        if span == before {
            write.abort()?;
        } else {
            write.commit()?;
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        command: Command,
        tables: &mut Tables<'_>,
        span: &mut Span,
        now: i64,
    ) -> Result<(), redb::Error> {
        match command {
            Command::Commit(transaction, reply) => {
                let outcome = match tables.commit(transaction, span.revision + 1, now) {
                    Ok(Applied::Failed(states)) => Outcome::Failed(states),
                    Ok(Applied::Committed(commit)) => {
                        if !commit.events.is_empty() {
                            span.revision = commit.revision;
                            self.commits.push(Arc::new(commit));
                        }
                        Outcome::Committed(span.revision)
                    }
                    Err(failure) => {
                        Command::Commit(Transaction::default(), reply).fail(&failure);
                        return Err(failure);
                    }
                };
                self.answers.push(Answer::Commit(reply, outcome));
            }
            Command::Compact(revision, reply) => {
                let result = can_compact(*span, revision);
                if result.is_ok() {
                    span.compacted = revision;
                }
                self.answers.push(Answer::Compact(reply, result));
            }
        }
        Ok(())
    }
}

fn can_compact(span: Span, revision: i64) -> Result<(), StoreError> {
    if revision <= span.compacted {
        return Err(StoreError::Compacted { requested: revision, oldest: span.compacted });
    }
    span.check(revision)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
