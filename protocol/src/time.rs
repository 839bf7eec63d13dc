//! Arithmetic on times that cannot overflow.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use evacuation_api::{Timestamp, from_condition_time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// `time` plus so many seconds; the end of time when that overflows.
pub(crate) fn after(time: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    TimeDelta::try_seconds(seconds)
        .and_then(|delta| time.checked_add_signed(delta))
        .unwrap_or(if seconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC })
}

/// `time` plus so many milliseconds; the end of time when that overflows.
pub(crate) fn after_millis(time: DateTime<Utc>, milliseconds: i64) -> DateTime<Utc> {
    TimeDelta::try_milliseconds(milliseconds)
        .and_then(|delta| time.checked_add_signed(delta))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// The time as it goes over the wire: with microseconds, so that an object in memory equals the stored one.
pub(crate) fn stamp(time: DateTime<Utc>) -> Timestamp {
    Timestamp(time.trunc_subsecs(6))
}

/// A time that its writer set. Go writes one that nobody set as that of the year 1, and it is no time of long
/// ago.
pub(crate) fn told(time: Option<&Time>) -> Option<DateTime<Utc>> {
    time.map(from_condition_time).filter(|time| *time > DateTime::UNIX_EPOCH)
}

/// The sooner of two times of which one may be missing.
pub(crate) fn sooner(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
