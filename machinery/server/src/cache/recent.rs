//! Objects that were decoded lately.

use std::{fmt, sync::Arc};

use moka::{policy::EvictionPolicy, sync::Cache};

use crate::{Object, stored::Stored};

/// Maximum stored size of the objects together, in bytes. In memory they take several times as much.
const MOST_BYTES: u64 = 2 * 1024 * 1024;

/// Decoded objects that were read or written last, by key and revision. All watches of a change, and the next
/// write of the object, find it here.
pub(crate) struct Recent<O>(Cache<(Arc<str>, i64), Arc<Stored<O>>>);

impl<O: Object> Recent<O> {
    pub(super) fn new() -> Self {
        let size = |_: &(Arc<str>, i64), stored: &Arc<Stored<O>>| {
            u32::try_from(stored.size()).unwrap_or(u32::MAX).max(512)
        };
        let cache = Cache::builder().max_capacity(MOST_BYTES).weigher(size);
        Self(cache.eviction_policy(EvictionPolicy::lru()).build())
    }

    /// Returns the object of a key at that revision, if it was decoded lately.
    pub(super) fn get(&self, key: &Arc<str>, revision: i64) -> Option<Arc<Stored<O>>> {
        self.0.get(&(key.clone(), revision))
    }

    /// Forgets all objects.
    pub(super) fn clear(&self) {
        self.0.invalidate_all();
    }

    /// Keeps an object for a while.
    pub(super) fn put(&self, key: &Arc<str>, stored: &Arc<Stored<O>>) {
        self.0.insert((key.clone(), stored.revision()), stored.clone());
    }
}

impl<O> fmt::Debug for Recent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recent")
    }
}
