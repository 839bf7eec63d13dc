//! One write, as the cache keeps it.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use super::entry::Entry;
use crate::{ApiError, Object};

/// One write: an object before and after it.
#[derive(Debug)]
pub(crate) struct Change<O> {
    /// Revision of the write.
    pub(crate) revision: i64,
    /// Key of the object, relative to the prefix of the kind.
    pub(crate) key: Arc<str>,
    /// Object after the write; `None` when it was removed.
    pub(crate) current: Option<Arc<Entry<O>>>,
    /// Object before the write; `None` when it was created.
    pub(crate) previous: Option<Arc<Entry<O>>>,
    /// Time at which the cache received it.
    pub(crate) received: Instant,
    gone: OnceLock<Arc<Entry<O>>>,
}

impl<O: Object> Change<O> {
    pub(crate) fn new(
        revision: i64,
        key: Arc<str>,
        current: Option<Arc<Entry<O>>>,
        previous: Option<Arc<Entry<O>>>,
    ) -> Self {
        Self { revision, key, current, previous, received: Instant::now(), gone: OnceLock::new() }
    }

    /// Returns the stored size of the object, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.current.as_ref().or(self.previous.as_ref()).map_or(0, |stored| stored.size())
    }

    /// Returns the object before the write, with the resourceVersion of the write: the object of a DELETED
    /// event. It is made once for all watches.
    pub(crate) fn gone(&self) -> Result<Option<Arc<Entry<O>>>, ApiError> {
        let Some(previous) = &self.previous else { return Ok(None) };
        if let Some(gone) = self.gone.get() {
            return Ok(Some(gone.clone()));
        }
        let gone = Arc::new(previous.at(self.revision)?);
        Ok(Some(self.gone.get_or_init(|| gone).clone()))
    }
}
