//! Writes: all or nothing, guarded by preconditions.

use bytes::Bytes;

use crate::KeyValue;

/// Condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key does not exist.
    Absent(String),
    /// The key exists and was last changed at that revision.
    Unchanged(String, i64),
}

/// Operation of a transaction.
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
    /// Conditions of the transaction.
    pub preconditions: Vec<Precondition>,
    /// Operations if every condition holds; at most 100. Of several on one key the last counts. Removing a
    /// key that does not exist does nothing.
    pub operations: Vec<Operation>,
}

impl Precondition {
    /// The key that it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::Unchanged(key, _) => key,
        }
    }
}

impl Operation {
    /// The key that it changes.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// The operations without those that a later one on the same key undoes.
    #[cfg(any(feature = "embedded", feature = "etcd"))]
    pub(crate) fn effective(mut operations: Vec<Self>) -> Vec<Self> {
        let mut index = 0;
        while let Some((operation, later)) = operations.get(index..).and_then(<[Self]>::split_first) {
            if later.iter().any(|other| other.key() == operation.key()) {
                operations.remove(index);
            } else {
                index += 1;
            }
        }
        operations
    }
}

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out, at this revision. One that changed nothing has the store's present revision.
    Committed(i64),
    /// A precondition failed and nothing was changed. Holds the present state of each precondition's key, in
    /// the order of the preconditions, read in the same transaction.
    Failed(Vec<Option<KeyValue>>),
}
