//! The choice between connections: past those that failed lately.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// Time for which a connection is avoided after its first failure. The time doubles with each further
/// failure: each call to a member that hangs takes its whole timeout.
const FIRST_AVOIDANCE: Duration = Duration::from_secs(1);

/// The longest avoidance: how late a member that is back may be noticed.
const LONGEST_AVOIDANCE: Duration = Duration::from_secs(16);

/// Connections to choose from. Times are measured from any fixed point.
pub(super) struct Choice<C> {
    connections: Vec<Connection<C>>,
    turn: AtomicUsize,
}

pub(super) struct Connection<C> {
    pub(super) client: C,
    failures: AtomicU32,
    /// In milliseconds.
    avoided_until: AtomicU64,
}

impl<C> Choice<C> {
    pub(super) fn new(clients: Vec<C>) -> Self {
        let connections = clients.into_iter().map(|client| Connection {
            client,
            failures: AtomicU32::new(0),
            avoided_until: AtomicU64::new(0),
        });
        Self { connections: connections.collect(), turn: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the next connection in turn that is not avoided. If all are avoided, returns the one that is
    /// avoided for the shortest time.
    ///
    /// A `careful` call uses a connection only if it has served since its last failure, or if there is no
    /// such one. A call that cannot be repeated is not used as a probe.
    pub(super) fn next(&self, now: Duration, careful: bool) -> Option<&Connection<C>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.connections.len().max(1);
        let (before, after) = self.connections.split_at_checked(turn)?;
        let in_turn = || after.iter().chain(before);
        let until = |connection: &&Connection<C>| connection.avoided_until.load(Ordering::Relaxed);
        let serving = |connection: &&Connection<C>| connection.failures.load(Ordering::Relaxed) == 0;
        careful
            .then(|| in_turn().find(serving))
            .flatten()
            .or_else(|| in_turn().find(|connection| until(connection) <= millis(now)))
            .or_else(|| in_turn().min_by_key(until))
    }
}

impl<C> Connection<C> {
    pub(super) fn served(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.avoided_until.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self, now: Duration) {
        let until = self.avoided_until.load(Ordering::Relaxed);
        // The calls that were under way when it failed are one failure.
        if millis(now) < until {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let avoidance = FIRST_AVOIDANCE.saturating_mul(1 << failures.min(10)).min(LONGEST_AVOIDANCE);
        self.avoided_until.store(millis(now + avoidance), Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(choice: &Choice<&'static str>, now: Duration, count: usize) -> Vec<&'static str> {
        (0..count).map(|_| choice.next(now, false).unwrap().client).collect()
    }

    #[test]
    fn connections_take_turns() {
        let choice = Choice::new(vec!["a", "b", "c"]);
        assert_eq!(names(&choice, SECOND, 6), ["a", "b", "c", "a", "b", "c"]);
        assert!(Choice::<&str>::new(Vec::new()).next(SECOND, false).is_none());
    }

    #[test]
    fn a_connection_that_failed_is_avoided_for_longer_each_time_until_it_serves() {
        let choice = Choice::new(vec!["a", "b"]);
        let a = &choice.connections[0];
        let mut now = SECOND;
        for expected in [1, 2, 4, 8, 16, 16] {
            a.failed(now);
            // Another call that was under way.
            a.failed(now);
            let avoidance = SECOND * expected;
            assert_eq!(names(&choice, now + avoidance.mul_f32(0.9), 2), ["b", "b"]);
            now += avoidance;
            assert!(names(&choice, now, 2).contains(&"a"), "after {expected} s it is tried");
        }
        a.served();
        a.failed(now);
        assert!(names(&choice, now + SECOND, 2).contains(&"a"));
    }

    #[test]
    fn a_careful_call_leaves_it_to_others_to_find_out_whether_a_connection_serves_again() {
        let choice = Choice::new(vec!["a", "b"]);
        let [a, b] = &choice.connections[..] else { panic!("there are two") };
        a.failed(SECOND);
        let careful = |now| (0..2).map(|_| choice.next(now, true).unwrap().client).collect::<Vec<_>>();
        assert_eq!(careful(60 * SECOND), ["b", "b"]);
        b.failed(60 * SECOND);
        assert_eq!(careful(60 * SECOND), ["a", "a"], "there is no better one");
        a.served();
        b.served();
        assert_eq!(careful(60 * SECOND), ["a", "b"]);
    }

    #[test]
    fn when_all_failed_the_one_that_is_back_soonest_is_tried() {
        let choice = Choice::new(vec!["a", "b"]);
        choice.connections[0].failed(2 * SECOND);
        choice.connections[1].failed(SECOND);
        assert_eq!(names(&choice, SECOND, 2), ["b", "b"]);
    }
}
