//! The API server's clock.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

/// Difference that a reply may correct at once and in silence: replies differ by as much on a busy machine.
const NOISE: TimeDelta = TimeDelta::milliseconds(250);
/// Difference that is tolerated between the clocks of two API servers. Within it the clock follows the
/// slowest.
const SKEW: TimeDelta = TimeDelta::seconds(2);
/// Number of replies in a row after which a clock that is ahead, within [`SKEW`], is followed: then no slower
/// server answers.
const PERSISTENT: u32 = 8;
/// Number of replies from which the skew is measured.
const MEASURED: usize = 16;

/// The API server's clock, as far as its replies tell. The local wall clock is not used.
///
/// # Guarantees
///
/// It is never ahead of the server's, unless that was set back since the last reply; and behind it by no more
/// than the fastest reply took, unless it was set forward since. Between replies it goes by the monotonic
/// clock of this machine.
///
/// Of several API servers whose clocks differ by up to 2 s it follows the slowest. So nothing is tried too
/// early by any of them, and a reply of another server does not wake every Evacuation.
///
/// # Caveats
///
/// Until the first reply it is the local wall clock.
#[derive(Debug, Default)]
pub struct ServerClock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    reading: Option<Reading>,
    /// Replies in a row of a server that is ahead.
    ahead: u32,
    offsets: VecDeque<Offset>,
    /// Moment to which the offsets refer.
    start: Option<Instant>,
}

/// Bounds of a server's clock less this machine's, in microseconds, from one reply.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: i64,
    most: i64,
}

/// Time that the clock shows at a moment.
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
    /// Returns the time that the clock shows now.
    pub fn now(&self) -> DateTime<Utc> {
        self.at(Instant::now())
    }

    /// Returns the time that the clock showed, or will show, at that moment.
    pub fn at(&self, moment: Instant) -> DateTime<Utc> {
        let known = self.lock().reading;
        let reading = known.unwrap_or_else(|| Reading { at: Instant::now(), shows: Utc::now() });
        reading.shows_at(moment)
    }

    /// Takes in the time that a reply carries. The server wrote it down between `sent` and `received`. True
    /// when it shows that the clock was wrong by so much that everything that waits for a time is to be
    /// reconsidered.
    pub fn set(&self, server: DateTime<Utc>, sent: Instant, received: Instant) -> bool {
        let mut state = self.lock();
        let least = Reading { shows: server, at: received };
        let Some(known) = state.reading else {
            state.reading = Some(least);
            state.measure(least, sent);
            return (Utc::now() - least.shows_at(Instant::now())).abs() > NOISE;
        };
        state.measure(least, sent);
        let (shown, limit) = (known.shows_at(received), server + (received - sent));
        // Within what the reply allows the clock is as good as any.
        if (server..=limit).contains(&shown) {
            state.ahead = 0;
            return false;
        }
        let difference = server - shown;
        let tolerated = difference > NOISE && difference <= SKEW;
        if tolerated && state.ahead + 1 < PERSISTENT {
            state.ahead += 1;
            return false;
        }
        state.ahead = 0;
        state.reading = Some(least);
        // What wakes too early by a clock that goes back looks again.
        difference > NOISE || difference < -SKEW
    }

    /// Difference between the clocks of the servers that answered lately, as far as the replies prove it.
    pub fn skew(&self) -> Duration {
        let state = self.lock();
        let fastest = state.offsets.iter().map(|offset| offset.least).max();
        let slowest = state.offsets.iter().map(|offset| offset.most).min();
        let skew = fastest.zip(slowest).map_or(0, |(fastest, slowest)| fastest.saturating_sub(slowest));
        Duration::from_micros(u64::try_from(skew).unwrap_or(0))
    }

    /// Returns a warning for people while the clocks of the servers that answered lately differ by more than
    /// replies of one server do.
    pub fn skew_warning(&self) -> Option<String> {
        let skew = self.skew();
        let noise = NOISE.to_std().unwrap_or_default();
        let seconds = skew.as_secs_f64();
        (skew > noise).then(|| format!("the clocks of the API servers differ by at least {seconds:.1} s"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what a reply tells of the server's clock.
    fn measure(&mut self, reply: Reading, sent: Instant) {
        let start = *self.start.get_or_insert(reply.at);
        let least = reply.shows_at(start).timestamp_micros();
        let took = i64::try_from(reply.at.duration_since(sent).as_micros()).unwrap_or(i64::MAX);
        self.offsets.truncate(MEASURED - 1);
        self.offsets.push_front(Offset { least, most: least.saturating_add(took) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(milliseconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + milliseconds).unwrap()
    }

    /// A clock that was set by a reply that took 40 ms and arrived, with the time 0, when the returned moment
    /// was.
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
        // Sent when the clock showed 1000, received at 1010: the server's time was 1020 when it replied, or
        // soon after.
        assert!(!clock.set(time(1020), after(start, 1000), after(start, 1010)));
        assert_eq!(clock.at(after(start, 1010)), time(1020));
        assert!(!clock.set(time(2010), after(start, 1995), after(start, 2095)));
        assert_eq!(clock.at(after(start, 2095)), time(2105));
    }

    #[test]
    fn it_follows_a_server_whose_clock_is_set_and_says_so() {
        for jump in [60_000, -60_000, 2_300, -2_300] {
            let (clock, start) = set();
            assert!(clock.set(time(1000 + jump), after(start, 990), after(start, 1010)));
            assert_eq!(clock.at(after(start, 1010)), time(1000 + jump));
            assert!(!clock.set(time(2000 + jump), after(start, 1990), after(start, 2010)));
        }
        let (clock, start) = set();
        assert!(!clock.set(time(1200), after(start, 990), after(start, 1010)));
        assert_eq!(clock.at(after(start, 1010)), time(1200), "a little is corrected in silence");
    }

    #[test]
    fn of_two_servers_it_follows_the_slower_and_a_reply_of_the_other_wakes_nobody() {
        let (clock, start) = set();
        assert_eq!((clock.skew(), clock.skew_warning()), (Duration::ZERO, None));
        for second in 1_u64..100 {
            let milliseconds = second * 1000;
            let (sent, received) = (after(start, milliseconds - 10), after(start, milliseconds));
            let ahead = if second % 2 == 0 { 900 } else { 0 };
            let server = time(i64::try_from(milliseconds).unwrap() + ahead);
            assert!(!clock.set(server, sent, received), "{second}");
            assert_eq!(clock.at(received), time(i64::try_from(milliseconds).unwrap()), "{second}");
        }
        assert_eq!(clock.skew(), Duration::from_millis(890), "the replies prove so much");
        let warning = clock.skew_warning().unwrap();
        assert_eq!(warning, "the clocks of the API servers differ by at least 0.9 s");
    }

    #[test]
    fn a_clock_that_stays_ahead_is_followed_and_one_that_falls_back_is_followed_at_once() {
        let (clock, start) = set();
        let reply = |second: u64, offset: i64| {
            let at = after(start, second * 1000);
            let server = time(i64::try_from(second * 1000).unwrap() + offset);
            (clock.set(server, after(start, second * 1000 - 10), at), clock.at(at) == server)
        };
        for second in 1..u64::from(PERSISTENT) {
            assert_eq!(reply(second, 900), (false, false), "{second}");
        }
        assert_eq!(reply(u64::from(PERSISTENT), 900), (true, true), "no slower server answers");
        assert_eq!(reply(20, 0), (false, true), "what wakes too early looks again");
    }
}
