//! Whether the API can be reached, and when an outage ended.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// How long nothing may succeed before it counts as an outage. Apps renew their delays well before they lapse, so that a
/// shorter gap costs none of them its renewal.
const OUTAGE_AFTER: TimeDelta = TimeDelta::seconds(5);

/// Notices outages of the API, from the times at which requests succeed.
///
/// While an outage lasts it "recovers now", so that nothing lapses in the first moment after it, before the end of the
/// outage is noticed.
#[derive(Debug)]
pub(crate) struct Reachability(Mutex<Times>);

#[derive(Clone, Copy, Debug)]
struct Times {
    last_success: DateTime<Utc>,
    recovered_at: Option<DateTime<Utc>>,
}

impl Reachability {
    /// The API counts as reachable at `now`.
    pub(crate) fn new(now: DateTime<Utc>) -> Self {
        Self(Mutex::new(Times {
            last_success: now,
            recovered_at: None,
        }))
    }

    /// Records that a request succeeded. True when that ended an outage.
    pub(crate) fn succeeded(&self, now: DateTime<Utc>) -> bool {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = now - times.last_success > OUTAGE_AFTER;
        if ended {
            times.recovered_at = Some(now);
        }
        times.last_success = times.last_success.max(now);
        ended
    }

    /// When the last outage ended; `now` while one lasts; `None` if there was none.
    pub(crate) fn recovered_at(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let times = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now - times.last_success > OUTAGE_AFTER {
            Some(now)
        } else {
            times.recovered_at
        }
    }

    /// Whether an outage lasts.
    pub(crate) fn is_out(&self, now: DateTime<Utc>) -> bool {
        now - self.0.lock().unwrap_or_else(PoisonError::into_inner).last_success > OUTAGE_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    #[test]
    fn short_gaps_are_no_outage() {
        let reachability = Reachability::new(at(0));
        for second in [1, 5, 10] {
            assert!(!reachability.succeeded(at(second)));
        }
        assert_eq!(reachability.recovered_at(at(11)), None);
    }

    #[test]
    fn an_outage_recovers_now_while_it_lasts_and_then_at_the_first_success() {
        let reachability = Reachability::new(at(0));
        assert_eq!(reachability.recovered_at(at(8)), Some(at(8)));
        assert_eq!(reachability.recovered_at(at(29)), Some(at(29)));
        assert!(reachability.succeeded(at(30)));
        assert!(!reachability.succeeded(at(31)));
        assert_eq!(reachability.recovered_at(at(33)), Some(at(30)));
    }
}
