//! Timers by the API server's clock.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// The longest that a timer is set for: a later time is looked at again then.
const LONGEST_TIMER: Duration = Duration::from_hours(24);

/// The moment of tokio's clock at which a clock that shows `now` will show `time`. A millisecond later, so
/// that it is never too early.
pub(crate) fn due(time: DateTime<Utc>, now: DateTime<Utc>) -> tokio::time::Instant {
    let wait = (time - now).to_std().unwrap_or_default();
    tokio::time::Instant::now() + wait.min(LONGEST_TIMER) + Duration::from_millis(1)
}
