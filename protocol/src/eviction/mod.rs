//! Attempts to evict or delete a pod: their outcomes, and the record of them in the status.

mod outcome;
mod record;

pub(crate) use self::record::is_deletion;
pub use self::{
    outcome::EvictionOutcome,
    record::{ATTEMPT_TIMEOUT_SECONDS, PROBE_SECONDS, record_eviction, retry_delay},
};
