//! Reachability of the API, and the end of the last interruption.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

/// Maximum time without a success that is no interruption. Apps renew their delays well before they end, so a
/// shorter gap costs no app its renewal.
const TOLERATED: Duration = Duration::from_secs(5);

/// Proof that a reply of the API gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A server answered: requests are worth sending.
    Answers,
    /// The store took a write just now: apps can answer.
    TakesWrites,
}

/// Record of the times at which the API answered and its store took writes, by the monotonic clock.
///
/// While an interruption lasts it "recovers now", so that no responder's time ends in the first moment after
/// it.
#[derive(Debug)]
pub(crate) struct Reachability(Mutex<Times>);

#[derive(Clone, Copy, Debug)]
struct Times {
    answered: Instant,
    took_write: Instant,
    recovered_at: Option<Instant>,
}

impl Times {
    fn is_interrupted(self, now: Instant) -> bool {
        now.saturating_duration_since(self.took_write) > TOLERATED
    }
}

impl Reachability {
    /// The API counts as reachable at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Times { answered: now, took_write: now, recovered_at: None }))
    }

    /// Records a reply. True when it ends an interruption.
    pub(crate) fn replied(&self, proof: Proof, now: Instant) -> bool {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.answered = times.answered.max(now);
        if proof == Proof::Answers {
            return false;
        }
        let ended = times.is_interrupted(now);
        if ended {
            times.recovered_at = Some(now);
        }
        times.took_write = times.took_write.max(now);
        ended
    }

    /// Records that until `moment` no controller led for a while, or the store took no writes.
    pub(crate) fn recovered(&self, moment: Instant) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.recovered_at = times.recovered_at.max(Some(moment));
    }

    /// Time at which the last interruption ended; `now` while one lasts; `None` if there was none.
    pub(crate) fn recovered_at(&self, now: Instant) -> Option<Instant> {
        let times = self.times();
        if times.is_interrupted(now) { Some(now) } else { times.recovered_at }
    }

    /// Returns true when the store has taken no write for longer than is tolerated. Deadlines are still worth
    /// trying.
    pub(crate) fn is_interrupted(&self, now: Instant) -> bool {
        self.times().is_interrupted(now)
    }

    /// Returns true when no server answers at all: each request would only wait for its timeout.
    pub(crate) fn is_away(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.times().answered) > TOLERATED
    }

    /// Sets the time of the last write that the store took.
    #[cfg(test)]
    pub(crate) fn set_last_write(&self, moment: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).took_write = moment;
    }

    fn times(&self) -> Times {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true when a store whose last successful write was at `written` takes writes at `now`, both by the
/// server's clock.
pub(crate) fn takes_writes(written: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    is_recent(written, now)
}

/// Returns true when no more time than is tolerated passed since `time`.
pub(crate) fn is_recent(time: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - time <= TimeDelta::from_std(TOLERATED).unwrap_or_default()
}

/// Returns true when no controller led for longer than is tolerated before a term that begins at `now`.
///
/// `renewed` is the lease's `renewTime` as the holder before left it. Without one it is not known how long no
/// controller led, which matters only when Evacuations that are not new are `open`.
pub(crate) fn nobody_led(renewed: Option<DateTime<Utc>>, now: DateTime<Utc>, open: bool) -> bool {
    renewed.map_or(open, |renewed| !is_recent(renewed, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |second| start + Duration::from_secs(second)
    }

    fn time(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    #[test]
    fn short_gaps_are_no_interruption() {
        let at = times();
        let reachability = Reachability::new(at(0));
        for second in [1, 5, 10] {
            assert!(!reachability.replied(Proof::TakesWrites, at(second)));
        }
        assert_eq!(reachability.recovered_at(at(11)), None);
    }

    #[test]
    fn an_interruption_recovers_now_while_it_lasts_and_then_at_the_first_write() {
        let at = times();
        let reachability = Reachability::new(at(0));
        assert_eq!(reachability.recovered_at(at(8)), Some(at(8)));
        assert_eq!(reachability.recovered_at(at(29)), Some(at(29)));
        assert!(reachability.replied(Proof::TakesWrites, at(30)));
        assert!(!reachability.replied(Proof::TakesWrites, at(31)));
        assert_eq!(reachability.recovered_at(at(33)), Some(at(30)));
    }

    #[test]
    fn rule_9_an_api_that_answers_and_takes_no_writes_is_interrupted_and_not_away() {
        let at = times();
        let reachability = Reachability::new(at(0));
        for second in 1..=60 {
            assert!(!reachability.replied(Proof::Answers, at(second)));
            assert!(!reachability.is_away(at(second)), "deadlines go on");
        }
        assert_eq!(reachability.recovered_at(at(60)), Some(at(60)));
        assert!(reachability.replied(Proof::TakesWrites, at(61)));
        assert_eq!(reachability.recovered_at(at(65)), Some(at(61)));
        assert!(reachability.is_away(at(70)));
    }

    #[test]
    fn rule_9_a_term_after_a_time_without_a_leader_begins_with_a_recovery() {
        let table = [
            (Some(0), 2, true, false, "given back and taken"),
            (Some(0), 17, true, true, "the holder died"),
            (Some(0), 3600, false, true, "no controller ran"),
            (None, 0, true, true, "nobody knows for how long"),
            (None, 0, false, false, "the first controller of all"),
        ];
        for (renewed, now, open, expected, what) in table {
            assert_eq!(nobody_led(renewed.map(time), time(now), open), expected, "{what}");
        }
        let at = times();
        let reachability = Reachability::new(at(0));
        reachability.recovered(at(4));
        reachability.recovered(at(3));
        assert_eq!(reachability.recovered_at(at(5)), Some(at(4)));
    }

    #[test]
    fn a_store_takes_writes_while_its_last_one_is_not_too_old() {
        for (now, expected) in [(0, true), (5, true), (6, false), (600, false)] {
            assert_eq!(takes_writes(time(0), time(now)), expected, "{now}");
        }
    }
}
