//! Fixtures that the tests of several modules share.

use chrono::{DateTime, TimeDelta, Utc};

use super::Limits;

/// Returns a second of the tests' clock.
pub(super) fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
}

/// Returns the same time as Kubernetes writes it.
pub(super) fn time(second: i64) -> String {
    at(second).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the limits that the flags set by default.
pub(super) fn limits() -> Limits {
    Limits {
        backoff: TimeDelta::minutes(10),
        longest_backoff: TimeDelta::hours(6),
        settled_after: TimeDelta::minutes(30),
        recovered_after: TimeDelta::minutes(1),
        per_minute: 10,
    }
}
