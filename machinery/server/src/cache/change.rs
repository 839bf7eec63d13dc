//! One write, as the cache remembers it.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use crate::{Object, stored::Stored};

/// One write: what an object was before and after it.
#[derive(Debug)]
pub(crate) struct Change<O> {
    /// The write's revision.
    pub(crate) revision: i64,
    /// The object's key, relative to the kind's prefix.
    pub(crate) key: String,
    /// The object after it; `None` when it was removed.
    pub(crate) current: Option<Arc<Stored<O>>>,
    /// The object before it; `None` when it was created.
    pub(crate) previous: Option<Arc<Stored<O>>>,
    /// When it was seen.
    pub(crate) seen: Instant,
    gone: OnceLock<Arc<Stored<O>>>,
}

impl<O: Object> Change<O> {
    pub(crate) fn new(
        revision: i64,
        key: String,
        current: Option<Arc<Stored<O>>>,
        previous: Option<Arc<Stored<O>>>,
    ) -> Self {
        Self { revision, key, current, previous, seen: Instant::now(), gone: OnceLock::new() }
    }

    /// How many bytes the store held of the object that it is about.
    pub(crate) fn size(&self) -> usize {
        self.current.as_ref().or(self.previous.as_ref()).map_or(0, |stored| stored.size())
    }

    /// The object as it was before, with this write's revision as its resourceVersion: what a watch shows of an object
    /// that it loses sight of. Made once for all watches.
    pub(crate) fn gone(&self) -> Option<Arc<Stored<O>>> {
        let previous = self.previous.as_ref()?;
        Some(self.gone.get_or_init(|| Arc::new(Stored::new(O::clone(previous), self.revision))).clone())
    }
}
