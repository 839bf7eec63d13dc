//! Events of a watch.

use std::pin::Pin;

use futures::Stream;

use crate::{KeyValue, StoreError};

/// Events of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key was written. `previous` is what it held before; absent when the key is new.
    Put {
        /// The key, its new value and its revisions.
        current: KeyValue,
        /// Content of the key before.
        previous: Option<KeyValue>,
    },
    /// A key was removed.
    Delete {
        /// The revision of the removal.
        revision: i64,
        /// Content of the key before.
        previous: KeyValue,
    },
    /// Everything up to this revision was reported.
    Progress(i64),
}

impl WatchEvent {
    /// The key that was written or removed; empty for progress.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { current, .. } => &current.key,
            Self::Delete { previous, .. } => &previous.key,
            Self::Progress(_) => "",
        }
    }

    /// The revision up to which a reader has seen everything but for later events of the same commit.
    pub fn revision(&self) -> i64 {
        match self {
            Self::Put { current, .. } => current.mod_revision,
            Self::Delete { revision, .. } | Self::Progress(revision) => *revision,
        }
    }
}

/// A stream of events in the order of their revisions. It ends with the first error.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, StoreError>> + Send>>;
