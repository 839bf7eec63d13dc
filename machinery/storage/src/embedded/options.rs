//! Where the embedded store lies, and how much it remembers.

use std::{path::PathBuf, time::Duration};

/// Where the embedded store lies, and how much it remembers.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The file; it is created if it does not exist, in a folder that does. One process can have it open.
    pub path: PathBuf,
    /// How long a commit stays in the history that watches and reads of the past need, unless it is compacted before. 5 min by
    /// default.
    pub history_age: Duration,
    /// How many changes the history holds at most. 100,000 by default.
    pub history_events: u64,
    /// The largest value that is taken, in bytes. 1.5 MiB by default, which is etcd's.
    pub max_value_bytes: usize,
    /// How much memory the file's pages may take, in bytes. 64 MiB by default.
    pub cache_bytes: usize,
    /// When a call gives up. 5 s by default.
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
