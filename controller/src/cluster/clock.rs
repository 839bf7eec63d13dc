//! The clock that rules: the API server's.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

/// By how much the clock must have been wrong for everything that waits for a time to be reconsidered.
const JUMP: TimeDelta = TimeDelta::milliseconds(250);

/// The API server's clock, as far as its replies tell. The clock of this machine on the wall does not matter.
///
/// # Guarantees
///
/// It is never ahead of the server's, unless that was set back since the last reply; and behind it by no more than the fastest
/// reply took, unless it was set forward since. Between replies it goes by the monotonic clock of this machine.
///
/// # Caveats
///
/// Until the first reply it is this machine's clock on the wall.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Reading>>);

/// What the clock shows, and when.
#[derive(Clone, Copy, Debug)]
struct Reading {
    shows: DateTime<Utc>,
    at: Instant,
}

impl Reading {
    fn shows_at(self, at: Instant) -> DateTime<Utc> {
        match at.checked_duration_since(self.at) {
            Some(later) => self.shows + later,
            None => self.shows - self.at.duration_since(at),
        }
    }
}

impl ServerClock {
    /// What the clock shows now.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.at(Instant::now())
    }

    /// What the clock showed, or will show, at that moment.
    pub(crate) fn at(&self, moment: Instant) -> DateTime<Utc> {
        let known = *self.lock();
        let reading = known.unwrap_or_else(|| Reading { at: Instant::now(), shows: Utc::now() });
        reading.shows_at(moment)
    }

    /// Takes in the time that a reply carries. The server wrote it down between `sent` and `received`. True when it shows
    /// that the clock was wrong by so much that whoever waits for a time is to look again.
    pub(crate) fn set(&self, server: DateTime<Utc>, sent: Instant, received: Instant) -> bool {
        let mut reading = self.lock();
        let least = Reading { shows: server, at: received };
        let Some(known) = *reading else {
            *reading = Some(least);
            return (Utc::now() - least.shows_at(Instant::now())).abs() > JUMP;
        };
        let (shown, limit) = (known.shows_at(received), server + (received - sent));
        // Within what the reply allows the clock is as good as any.
        if (server..=limit).contains(&shown) {
            return false;
        }
        *reading = Some(least);
        (shown - server).abs() > JUMP
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest that a timer is set for: a later time is looked at again then.
const LONGEST_TIMER: Duration = Duration::from_hours(24);

/// The moment of tokio's clock at which a clock that shows `now` will show `time`. A millisecond later, so that it is never
/// too early.
pub(crate) fn due(time: DateTime<Utc>, now: DateTime<Utc>) -> tokio::time::Instant {
    let wait = (time - now).to_std().unwrap_or_default();
    tokio::time::Instant::now() + wait.min(LONGEST_TIMER) + Duration::from_millis(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(milliseconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + milliseconds).unwrap()
    }

    /// A clock that was set by a reply that took 40 ms and arrived, with the time 0, when the returned moment was.
    fn set() -> (ServerClock, Instant) {
        let (clock, sent) = (ServerClock::default(), Instant::now());
        let received = after(sent, 40);
        clock.set(time(0), sent, received);
        assert_eq!(clock.at(sent), time(-40), "it knows the past");
        (clock, received)
    }

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn without_a_reply_it_is_the_clock_on_the_wall() {
        let (before, now, after) = (Utc::now(), ServerClock::default().now(), Utc::now());
        assert!(before <= now && now <= after);
    }

    #[test]
    fn between_replies_it_goes_on() {
        let (clock, start) = set();
        assert_eq!(clock.at(after(start, 1500)), time(1500));
        assert!(clock.now() >= time(-40));
    }

    #[test]
    fn a_faster_reply_sets_it_forward_and_a_slower_one_leaves_it() {
        let (clock, start) = set();
        // Sent when the clock showed 1000, received at 1010: the server's time was 1020 when it replied, or soon after.
        assert!(!clock.set(time(1020), after(start, 1000), after(start, 1010)));
        assert_eq!(clock.at(after(start, 1010)), time(1020));
        assert!(!clock.set(time(2010), after(start, 1995), after(start, 2095)));
        assert_eq!(clock.at(after(start, 2095)), time(2105));
    }

    #[test]
    fn it_follows_a_server_whose_clock_is_set_and_says_so() {
        for jump in [60_000, -60_000, 300, -300] {
            let (clock, start) = set();
            assert!(clock.set(time(1000 + jump), after(start, 990), after(start, 1010)));
            assert_eq!(clock.at(after(start, 1010)), time(1000 + jump));
            assert!(!clock.set(time(2000 + jump), after(start, 1990), after(start, 2010)));
        }
        let (clock, start) = set();
        assert!(!clock.set(time(1200), after(start, 990), after(start, 1010)));
        assert_eq!(clock.at(after(start, 1010)), time(1200), "a little is corrected in silence");
    }
}
