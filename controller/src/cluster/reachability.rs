//! Whether the API can be reached, and when an outage ended.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long nothing may succeed before it counts as an outage. Apps renew their delays well before they lapse, so that a
/// shorter gap costs none of them its renewal.
const OUTAGE_AFTER: Duration = Duration::from_secs(5);

/// Notices outages of the API, from the moments at which requests succeed. No clock on the wall matters, for one that is set
/// would look like an outage, or hide one.
///
/// While an outage lasts it "recovers now", so that nothing lapses in the first moment after it, before the end of the
/// outage is noticed.
#[derive(Debug)]
pub(crate) struct Reachability(Mutex<Times>);

#[derive(Clone, Copy, Debug)]
struct Times {
    last_success: Instant,
    recovered_at: Option<Instant>,
}

impl Times {
    fn is_out(self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_success) > OUTAGE_AFTER
    }
}

impl Reachability {
    /// The API counts as reachable at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Times { last_success: now, recovered_at: None }))
    }

    /// Records that a request succeeded. True when that ended an outage.
    pub(crate) fn succeeded(&self, now: Instant) -> bool {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = times.is_out(now);
        if ended {
            times.recovered_at = Some(now);
        }
        times.last_success = times.last_success.max(now);
        ended
    }

    /// When the last outage ended; `now` while one lasts; `None` if there was none.
    pub(crate) fn recovered_at(&self, now: Instant) -> Option<Instant> {
        let times = self.times();
        if times.is_out(now) { Some(now) } else { times.recovered_at }
    }

    /// Whether an outage lasts.
    pub(crate) fn is_out(&self, now: Instant) -> bool {
        self.times().is_out(now)
    }

    fn times(&self) -> Times {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |second| start + Duration::from_secs(second)
    }

    #[test]
    fn short_gaps_are_no_outage() {
        let at = times();
        let reachability = Reachability::new(at(0));
        for second in [1, 5, 10] {
            assert!(!reachability.succeeded(at(second)));
        }
        assert_eq!(reachability.recovered_at(at(11)), None);
    }

    #[test]
    fn an_outage_recovers_now_while_it_lasts_and_then_at_the_first_success() {
        let at = times();
        let reachability = Reachability::new(at(0));
        assert_eq!(reachability.recovered_at(at(8)), Some(at(8)));
        assert_eq!(reachability.recovered_at(at(29)), Some(at(29)));
        assert!(reachability.succeeded(at(30)));
        assert!(!reachability.succeeded(at(31)));
        assert_eq!(reachability.recovered_at(at(33)), Some(at(30)));
    }
}
