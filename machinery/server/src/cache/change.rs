//! One write, as the cache keeps it.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use crate::{Object, stored::Stored};

/// One write: an object before and after it.
#[derive(Debug)]
pub(crate) struct Change<O> {
    /// Revision of the write.
    pub(crate) revision: i64,
    /// Key of the object, relative to the prefix of the kind.
    pub(crate) key: String,
    /// Object after the write; `None` when it was removed.
    pub(crate) current: Option<Arc<Stored<O>>>,
    /// Object before the write; `None` when it was created.
    pub(crate) previous: Option<Arc<Stored<O>>>,
    /// Time at which the cache received it.
    pub(crate) received: Instant,
    gone: OnceLock<Arc<Stored<O>>>,
}

impl<O: Object> Change<O> {
    pub(crate) fn new(
        revision: i64,
        key: String,
        current: Option<Arc<Stored<O>>>,
        previous: Option<Arc<Stored<O>>>,
    ) -> Self {
        Self { revision, key, current, previous, received: Instant::now(), gone: OnceLock::new() }
    }

    /// Returns the stored size of the object, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.current.as_ref().or(self.previous.as_ref()).map_or(0, |stored| stored.size())
    }

    /// Returns the object before the write, with the resourceVersion of the write: the object of a DELETED
    /// event. It is made once for all watches.
    pub(crate) fn gone(&self) -> Option<Arc<Stored<O>>> {
        let previous = self.previous.as_ref()?;
        Some(self.gone.get_or_init(|| Arc::new(Stored::new(O::clone(previous), self.revision))).clone())
    }
}
