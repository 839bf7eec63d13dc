//! Keys, values and what reads return.

use bytes::Bytes;

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

/// Maximum number of keys of one read of revisions. etcd takes 128 operations in a transaction.
pub const MAX_KEYS: usize = 100;

/// Revisions that last changed some keys, at a revision of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The store's revision at the time of reading.
    pub revision: i64,
    /// For each key that was asked for, in that order, the revision that last changed it; `None` when it is
    /// absent.
    pub of: Vec<Option<i64>>,
}

/// Part of a prefix to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The keys that start with it; ends with `/`.
    pub prefix: String,
    /// Only keys that sort after this one.
    pub after: Option<String>,
    /// Maximum number of items; 0 for all.
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
    /// Number of keys of the range after this page.
    pub remaining: usize,
}
