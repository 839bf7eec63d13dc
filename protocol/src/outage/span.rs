//! The start of an outage whose cause changes.

use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

use super::Outage;

/// The outage that a process has seen last, by its monotonic clock.
///
/// Outages that overlap are one: there is no moment between them at which everything worked. So a bound
/// counts from the start of the first one, also after its cause has ended. A call that has passed by the
/// bound is not held again because another cause remains.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutageSpan(Option<Span>);

#[derive(Clone, Copy, Debug)]
struct Span {
    seen_at: Instant,
    /// Age of the outage at that moment.
    age: TimeDelta,
}

impl OutageSpan {
    /// Takes in the outage that a process sees at `now`, which is `wall` by the clock of its times. Returns
    /// it with the start of the first outage that it overlaps.
    pub fn seen(&mut self, outage: Option<Outage>, now: Instant, wall: DateTime<Utc>) -> Option<Outage> {
        let outage = outage?;
        let own = wall - outage.since;
        let earlier = self.0.and_then(|span| {
            let ago = TimeDelta::from_std(now.saturating_duration_since(span.seen_at)).ok()?;
            span.age.checked_add(&ago).filter(|_| ago < own)
        });
        let age = earlier.map_or(own, |earlier| earlier.max(own));
        self.0 = Some(Span { seen_at: now, age });
        Some(Outage { since: wall.checked_sub_signed(age).unwrap_or(outage.since), ..outage })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{OutageCause, testing::at};

    /// Returns the start of the last outage, for causes that are seen at a second and began at another.
    fn start(seen: &[(i64, Option<(OutageCause, i64)>)]) -> Option<DateTime<Utc>> {
        let (first, mut span, mut last) = (Instant::now(), OutageSpan::default(), None);
        for (second, outage) in seen {
            let now = first + Duration::from_secs(u64::try_from(*second).unwrap());
            let outage = outage.map(|(cause, since)| Outage { cause, since: at(since) });
            last = span.seen(outage, now, at(*second)).map(|outage| outage.since);
        }
        last
    }

    #[test]
    fn rule_11_the_start_of_an_outage_stays_while_only_its_cause_changes() {
        use OutageCause::{Api, Leaderless};
        let (api, leaderless) = (|since| Some((Api, since)), |since| Some((Leaderless, since)));
        let table = [
            (vec![(10, api(0)), (900, api(0))], Some(0), "one outage"),
            (vec![(900, api(0)), (901, leaderless(500))], Some(0), "the API is back, and nobody acts"),
            (vec![(900, leaderless(0)), (901, api(500))], Some(0), "a controller leads, and the API is away"),
            (vec![(900, api(0)), (901, None), (930, leaderless(899))], Some(0), "seen 30 s later"),
            (vec![(900, api(0)), (901, leaderless(500)), (2000, leaderless(500))], Some(0), "much later"),
            (
                vec![(900, api(0)), (901, None), (990, leaderless(950))],
                Some(950),
                "everything worked between",
            ),
            (vec![(900, api(500)), (901, leaderless(100))], Some(100), "the other cause is older"),
            (vec![(900, api(0)), (901, None)], None, "no outage"),
        ];
        for (seen, expected, what) in table {
            assert_eq!(start(&seen), expected.map(at), "{what}");
        }
    }

    #[test]
    fn a_clock_that_is_set_in_an_outage_moves_no_bound() {
        let (first, mut span) = (Instant::now(), OutageSpan::default());
        let outage = |since| Some(Outage { cause: OutageCause::Api, since: at(since) });
        span.seen(outage(0), first, at(100));
        let later = first + Duration::from_secs(10);
        assert_eq!(span.seen(outage(3600), later, at(3710)), outage(3600));
    }
}
