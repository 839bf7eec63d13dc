//! Location and limits of the embedded store.

use std::{path::PathBuf, time::Duration};

/// Location and limits of the embedded store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The file; it is created if it does not exist, in a folder that does. One process can have it open.
    pub path: PathBuf,
    /// Time for which a commit stays in the history, unless it is compacted before. Watches and reads of the
    /// past need the history. 5 min by default.
    pub history_age: Duration,
    /// Maximum number of changes in the history. 100,000 by default.
    pub history_events: u64,
    /// The largest value that is taken, in bytes. 1.5 MiB by default, which is etcd's.
    pub max_value_bytes: usize,
    /// Maximum memory for the file's pages, in bytes. 64 MiB by default.
    pub cache_bytes: usize,
    /// Timeout of a call. 5 s by default.
    pub request_timeout: Duration,
}

impl EmbeddedOptions {
    /// A store in that file, and the defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            history_age: Duration::from_mins(5),
            history_events: 100_000,
            max_value_bytes: 1536 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            request_timeout: Duration::from_secs(5),
        }
    }
}
