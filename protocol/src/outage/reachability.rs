//! Reachability of the evacuation API, and the end of the last interruption.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// Maximum time without a success that is no interruption. Apps renew their delays well before they end, so a
/// shorter gap costs no app its renewal.
const TOLERATED: Duration = Duration::from_secs(5);
/// Number of probes in a row that must fail. A process that was suspended itself has seen no failure.
const FAILURES: u32 = 3;

/// Proof that a reply of the API gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A server answered: requests are worth sending.
    Answers,
    /// The store took a write just now: apps can answer.
    TakesWrites,
}

impl Proof {
    /// Returns the proof of a reply with that HTTP status; `None` for one of a server that cannot serve.
    ///
    /// A refusal proves only that a server answers: 403 and 404 can come from a kube-apiserver that does not
    /// reach ours, and 429 from a busy one. Our server tells with each reply when its store took the last
    /// write (`written`, by the server's clock `now`). `written` is `None` for a reply that does not tell, of
    /// an older server, and holds `None` for a store that took no write yet.
    pub fn of_reply(
        status: u16,
        written: Option<Option<DateTime<Utc>>>,
        now: Option<DateTime<Utc>>,
    ) -> Option<Self> {
        if status >= 500 {
            return None;
        }
        let takes_writes = match written {
            Some(written) => written.zip(now).is_some_and(|(written, now)| is_recent(written, now)),
            None => (200..300).contains(&status),
        };
        Some(if takes_writes { Self::TakesWrites } else { Self::Answers })
    }
}

/// Record of the probes of the API, by the monotonic clock.
///
/// While an interruption lasts it "recovers now", so that no responder's time ends in the first moment after
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Reachability {
    answered: Instant,
    took_write: Instant,
    /// Probes in a row without a reply.
    unanswered: u32,
    /// Probes in a row without the proof of a write.
    unproved: u32,
    recovered_at: Option<Instant>,
}

impl Reachability {
    /// The API counts as reachable at `now`.
    pub fn new(now: Instant) -> Self {
        Self { answered: now, took_write: now, unanswered: 0, unproved: 0, recovered_at: None }
    }

    /// Records the end of a probe: the proof of its reply, or `None` when there was none. Returns true when
    /// it ends an interruption.
    pub fn probed(&mut self, proof: Option<Proof>, now: Instant) -> bool {
        if proof.is_some() {
            self.unanswered = 0;
            self.answered = self.answered.max(now);
        } else {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        if proof != Some(Proof::TakesWrites) {
            self.unproved = self.unproved.saturating_add(1);
            return false;
        }
        let ended = self.is_interrupted(now);
        if ended {
            self.recovered_at = Some(now);
        }
        self.unproved = 0;
        self.took_write = self.took_write.max(now);
        ended
    }

    /// Records that until `moment` no controller led for a while, or the store took no writes.
    pub fn recovered(&mut self, moment: Instant) {
        self.recovered_at = self.recovered_at.max(Some(moment));
    }

    /// Time at which the last interruption ended; `now` while one lasts; `None` if there was none.
    pub fn recovered_at(&self, now: Instant) -> Option<Instant> {
        if self.is_interrupted(now) { Some(now) } else { self.recovered_at }
    }

    /// Returns true when there was no proof of a write for longer than is tolerated. Nothing but a deadline
    /// may act then, so that a doubt is enough. Deadlines are still worth trying.
    pub fn is_interrupted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.took_write) > TOLERATED
    }

    /// Returns true when no server answers at all: each request would only wait for its timeout.
    pub fn is_away(&self, now: Instant) -> bool {
        self.unanswered >= FAILURES && now.saturating_duration_since(self.answered) > TOLERATED
    }

    /// Returns the start of the outage: the last proof of a write. `None` when there is no outage. A late
    /// reply is none, nor is a pause of seconds, of the API or of this process.
    pub fn outage_since(&self, now: Instant) -> Option<Instant> {
        (self.unproved >= FAILURES && self.is_interrupted(now)).then_some(self.took_write)
    }
}

/// Returns true when no more time than is tolerated passed since `time`.
pub fn is_recent(time: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - time <= TimeDelta::from_std(TOLERATED).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at as time;

    fn times() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |second| start + Duration::from_secs(second)
    }

    #[test]
    fn short_gaps_are_no_interruption() {
        let at = times();
        let mut reachability = Reachability::new(at(0));
        for second in [1, 5, 10] {
            assert!(!reachability.probed(Some(Proof::TakesWrites), at(second)));
        }
        assert_eq!(reachability.recovered_at(at(11)), None);
    }

    #[test]
    fn an_interruption_recovers_now_while_it_lasts_and_then_at_the_first_write() {
        let at = times();
        let mut reachability = Reachability::new(at(0));
        assert_eq!(reachability.recovered_at(at(8)), Some(at(8)));
        assert_eq!(reachability.recovered_at(at(29)), Some(at(29)));
        assert!(reachability.probed(Some(Proof::TakesWrites), at(30)));
        assert!(!reachability.probed(Some(Proof::TakesWrites), at(31)));
        assert_eq!(reachability.recovered_at(at(33)), Some(at(30)));
        reachability.recovered(at(32));
        reachability.recovered(at(31));
        assert_eq!(reachability.recovered_at(at(33)), Some(at(32)), "the latest counts");
    }

    #[test]
    fn rule_9_an_api_that_answers_and_takes_no_writes_is_interrupted_and_not_away() {
        let at = times();
        let mut reachability = Reachability::new(at(0));
        for second in 1..=60 {
            assert!(!reachability.probed(Some(Proof::Answers), at(second)));
            assert!(!reachability.is_away(at(second)), "deadlines go on");
        }
        assert_eq!(reachability.recovered_at(at(60)), Some(at(60)));
        assert_eq!(reachability.outage_since(at(60)), Some(at(0)), "no app can answer");
        assert!(reachability.probed(Some(Proof::TakesWrites), at(61)));
        assert_eq!(reachability.recovered_at(at(65)), Some(at(61)));
        assert_eq!(reachability.outage_since(at(61)), None);
    }

    #[test]
    fn rule_11_an_outage_takes_failures_in_a_row_and_a_time() {
        // Seconds of failed probes after a proof at 0, the second of the look, and the result.
        let table: [(&[u64], u64, bool, &str); 6] = [
            (&[], 60, false, "this process was suspended"),
            (&[2], 4, false, "one late reply"),
            (&[60], 60, false, "suspended, and the first probe after it is late"),
            (&[1, 2, 3], 4, false, "a pause of seconds"),
            (&[1, 2, 3], 6, true, "failures over a time"),
            (&[2, 4, 6], 6, true, "an API that hangs"),
        ];
        for (failed, now, expected, what) in table {
            let at = times();
            let mut reachability = Reachability::new(at(0));
            for second in failed {
                reachability.probed(None, at(*second));
            }
            assert_eq!(reachability.outage_since(at(now)).is_some(), expected, "{what}");
            assert_eq!(reachability.is_away(at(now)), expected, "{what}");
            reachability.probed(Some(Proof::TakesWrites), at(now));
            assert_eq!(reachability.outage_since(at(now)), None, "{what}: one proof ends it");
        }
    }

    #[test]
    fn rule_9_only_a_store_that_took_a_write_just_now_proves_that_apps_can_answer() {
        let (answers, writes) = (Some(Proof::Answers), Some(Proof::TakesWrites));
        let table = [
            (200, Some(Some(58)), writes),
            (200, Some(Some(55)), writes),
            (200, Some(Some(54)), answers),
            (200, Some(None), answers),
            (200, None, writes),
            (429, None, answers),
            (429, Some(Some(60)), writes),
            (401, None, answers),
            (403, None, answers),
            (404, None, answers),
            (500, Some(Some(60)), None),
            (503, None, None),
        ];
        for (status, written, expected) in table {
            let written = written.map(|written: Option<i64>| written.map(time));
            assert_eq!(Proof::of_reply(status, written, Some(time(60))), expected, "{status} {written:?}");
        }
    }
}
