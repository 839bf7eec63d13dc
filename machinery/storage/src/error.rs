//! Failures of a store.

/// Failure of the store itself. A failed precondition is not an error: see [`Outcome`](crate::Outcome).
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
    /// The store did not answer in time, is unreachable or in no state to serve. A write may or may not have
    /// happened.
    #[error("the store did not {action}")]
    Unavailable {
        /// Call that failed, such as `commit`.
        action: &'static str,
        /// Cause, from the transport.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
