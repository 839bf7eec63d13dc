//! A key-value store with revisions, transactions and watches, as an API server needs it.
//!
//! The model is etcd's: one revision counts the commits of the whole store; each key remembers the revision that
//! last changed it; a watch replays what was committed after a revision. [`Store`] is the trait, `EtcdStore` and
//! `EmbeddedStore` implement it, and one contract suite (`tests/contract.rs`) runs on both.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

/// What went wrong with the store itself. A failed precondition is not an error: see [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The revision asked for was compacted away; the oldest that is left is given, where known.
    #[error("revision {requested} was compacted")]
    Compacted {
        /// The revision asked for.
        requested: i64,
        /// The oldest revision that can still be read; 0 when the store does not say.
        oldest: i64,
    },
    /// The revision asked for lies in the store's future.
    #[error("revision {requested} is newer than the store's {current}")]
    Future {
        /// The revision asked for.
        requested: i64,
        /// The store's revision; 0 when it does not say.
        current: i64,
    },
    /// The value is larger than the store takes.
    #[error("the value of {key} is too large: {size} bytes")]
    TooLarge {
        /// The key.
        key: String,
        /// The value's size in bytes.
        size: usize,
    },
    /// The store did not answer in time or is unreachable. A write may or may not have happened.
    #[error("the store did not {action}")]
    Unavailable {
        /// What was asked of it, such as `commit`.
        action: &'static str,
        /// What the transport said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// One key's value and the revisions that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: i64,
    /// The revision that last changed it.
    pub mod_revision: i64,
}

/// The state of one key at a revision of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The store's revision at the time of reading.
    pub revision: i64,
    /// The key's value, if it exists.
    pub found: Option<KeyValue>,
}

/// Which part of a prefix is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The keys that start with it; ends with `/`.
    pub prefix: String,
    /// Only keys that sort after this one.
    pub after: Option<String>,
    /// At most so many; 0 for all.
    pub limit: usize,
    /// The state at this revision instead of the newest.
    pub at_revision: Option<i64>,
}

/// A part of a prefix, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The revision that the page shows.
    pub revision: i64,
    /// The keys and values.
    pub items: Vec<KeyValue>,
    /// How many keys of the range come after this page.
    pub remaining: usize,
}

/// What must hold for a transaction to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key does not exist.
    Absent(String),
    /// The key exists and was last changed at that revision.
    Unchanged(String, i64),
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a value.
    Put(String, Bytes),
    /// Removes a key.
    Delete(String),
}

/// All or nothing: when every precondition holds, every operation happens, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub preconditions: Vec<Precondition>,
    /// What is then done.
    pub operations: Vec<Operation>,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out, at this revision.
    Committed(i64),
    /// A precondition failed and nothing was changed. Holds the present state of each precondition's key, in
    /// the order of the preconditions, read in the same transaction.
    Failed(Vec<Option<KeyValue>>),
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key was written. `previous` is what it held before; absent when the key is new.
    Put {
        /// The key, its new value and its revisions.
        current: KeyValue,
        /// What it held before.
        previous: Option<KeyValue>,
    },
    /// A key was removed.
    Delete {
        /// The revision of the removal.
        revision: i64,
        /// What it held before.
        previous: KeyValue,
    },
    /// Everything up to this revision was reported.
    Progress(i64),
}

/// A stream of events in the order of their revisions. It ends with the first error.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, StoreError>> + Send>>;

/// A key-value store with revisions, transactions and watches.
///
/// # Guarantees
///
/// Reads and writes are linearisable. A watch reports every commit under its prefix that came after the given
/// revision, once, in order, with the previous value; the operations of one commit come one after another.
/// Every call gives up after a few seconds with [`StoreError::Unavailable`].
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one key.
    async fn get(&self, key: &str) -> Result<Read, StoreError>;

    /// Reads a part of a prefix.
    async fn list(&self, range: &Range) -> Result<Page, StoreError>;

    /// Carries out a transaction, or reports why not.
    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError>;

    /// Reports what is committed under `prefix` after `revision`.
    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError>;

    /// Asks for a [`WatchEvent::Progress`] on the watches of this store soon, so that a reader can tell that it
    /// has seen everything up to a revision.
    async fn request_progress(&self) -> Result<(), StoreError>;

    /// Forgets what was overwritten or deleted before this revision.
    async fn compact(&self, revision: i64) -> Result<(), StoreError>;

    /// Whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
