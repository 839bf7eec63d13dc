//! The lease of the controller: whether anybody acts.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use evacuation_api::Blindness;
use k8s_openapi::api::coordination::v1::Lease;

use super::is_recent;
use crate::time::sooner;

/// Time for which the lease stays unchanged before nobody is said to act: twice its duration of 15 s. Another
/// controller takes a lease over within 17 s.
pub const LEADERLESS: Duration = Duration::from_secs(30);

/// Maximum time between two reads that tell how long the lease stays unchanged, one of which may fail between
/// them. While it cannot be read its holder cannot renew it either: an outage of the kube-apiserver says
/// nothing of the controller.
const GAP: Duration = Duration::from_secs(15);

/// First words of the warning that the API server gives while no controller works.
pub const NO_CONTROLLER: &str = "no controller works on evacuations";

/// Returns the time of a lease's last renewal.
pub fn lease_renewed(lease: &Lease) -> Option<DateTime<Utc>> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    DateTime::from_timestamp_micros(renewed.as_microsecond())
}

/// Returns the time at which the last holder of a lease still worked: that of its last renewal, or the start
/// of its blindness.
pub fn lease_worked(lease: &Lease) -> Option<DateTime<Utc>> {
    sooner(lease_renewed(lease), Blindness::of_last(lease).map(|blindness| blindness.since.0))
}

/// Returns true when no controller led for longer than is tolerated before a term that begins at `now`.
///
/// `worked` is the [`lease_worked`] of the holder before. Without one it is not known how long no controller
/// led, which matters only when Evacuations that are not new are `open`.
pub fn nobody_led(worked: Option<DateTime<Utc>>, now: DateTime<Utc>, open: bool) -> bool {
    worked.map_or(open, |worked| !is_recent(worked, now))
}

/// Age of the controller's lease, as successive reads of it show, and what its holder cannot watch.
///
/// The clocks of other machines do not count: a lease grows old while reads succeed and show no change, as in
/// client-go's leader election. A lease that cannot be read says nothing, and its age begins anew when it
/// can.
#[derive(Clone, Debug, Default)]
pub struct LeaseAge(Option<Seen>);

#[derive(Clone, Debug)]
struct Seen {
    /// `renewTime` of the lease; `None` for a lease that does not exist.
    renewed: Option<DateTime<Utc>>,
    blindness: Option<Blindness>,
    changed_at: Instant,
    read_at: Instant,
}

impl LeaseAge {
    /// Records a read of the lease: its `renewTime`, or `None` when there is no lease, and what its holder
    /// cannot watch. Reads are one to five seconds apart.
    pub fn read(&mut self, renewed: Option<DateTime<Utc>>, blindness: Option<Blindness>, now: Instant) {
        let goes_on =
            |seen: &&Seen| seen.renewed == renewed && now.saturating_duration_since(seen.read_at) <= GAP;
        let changed_at = self.0.as_ref().filter(goes_on).map_or(now, |seen| seen.changed_at);
        self.0 = Some(Seen { renewed, blindness, changed_at, read_at: now });
    }

    /// Returns true when the lease was read lately. What was seen before then says nothing of now.
    pub fn is_current(&self, now: Instant) -> bool {
        self.0.as_ref().is_some_and(|seen| now.saturating_duration_since(seen.read_at) <= LEADERLESS)
    }

    /// Returns the time since which nobody acts, by this process's clocks `now` and `wall`: nobody renews the
    /// lease, or its holder cannot watch. `None` while somebody acts, or the lease was not read for long
    /// enough.
    pub fn leaderless_since(&self, now: Instant, wall: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let blind = self.blindness().map(|blindness| blindness.since.0.min(wall));
        sooner(self.unrenewed_since(now, wall), blind)
    }

    /// Returns what the holder of the lease cannot watch.
    pub fn blindness(&self) -> Option<&Blindness> {
        self.0.as_ref()?.blindness.as_ref()
    }

    /// Returns the time since which nobody renews the lease, by this process's clocks `now` and `wall`.
    ///
    /// It is the lease's `renewTime`, so that a restart of this process moves no bound that counts from it,
    /// unless that is later than the first of the reads that showed no change.
    pub fn unrenewed_since(&self, now: Instant, wall: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let seen = self.0.as_ref()?;
        if seen.read_at.saturating_duration_since(seen.changed_at) <= LEADERLESS {
            return None;
        }
        let observed = wall - now.saturating_duration_since(seen.changed_at);
        Some(seen.renewed.map_or(observed, |renewed| renewed.min(observed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at as time;

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
    }

    /// Reads that show a `renewTime`: in each second from the first to the last.
    type Reads = (std::ops::RangeInclusive<u64>, Option<i64>);

    /// Returns the time since which nobody acts at second `now`.
    fn since(reads: &[Reads], now: u64) -> Option<DateTime<Utc>> {
        let start = Instant::now();
        let mut age = LeaseAge::default();
        for (seconds, renewed) in reads {
            for second in seconds.clone() {
                age.read(renewed.map(time), None, start + Duration::from_secs(second));
            }
        }
        let wall = time(i64::try_from(now).unwrap());
        age.leaderless_since(start + Duration::from_secs(now), wall)
    }

    #[test]
    fn nobody_acts_when_reads_over_thirty_seconds_show_the_same_lease() {
        let table: [(&[Reads], u64, Option<i64>, &str); 10] = [
            (&[], 100, None, "never read"),
            (&[(0..=30, Some(0))], 30, None, "not long enough"),
            (&[(0..=31, Some(0))], 31, Some(0), "long enough"),
            (&[(0..=30, Some(0)), (31..=31, Some(30))], 60, None, "renewed"),
            (&[(0..=0, Some(0))], 100, None, "unreadable since"),
            (&[(0..=31, Some(-600))], 31, Some(-600), "this process started later"),
            (&[(0..=31, Some(3600))], 31, Some(0), "the clock of the API server is ahead"),
            (&[(0..=31, None)], 40, Some(0), "no controller ever led"),
            (&[(0..=5, Some(0)), (60..=90, Some(0))], 90, None, "nobody could renew it for a minute"),
            (&[(0..=5, Some(0)), (60..=91, Some(0))], 91, Some(0), "nobody did when it could be"),
        ];
        for (reads, now, expected, what) in table {
            assert_eq!(since(reads, now), expected.map(time), "{what}");
        }
    }

    fn blindness(since: i64) -> Blindness {
        Blindness {
            holder: "c-0".to_owned(),
            kinds: vec!["pods".to_owned()],
            since: time(since).into(),
            reason: "Forbidden".to_owned(),
            waits: false,
        }
    }

    #[test]
    fn nobody_acts_while_the_holder_that_renews_the_lease_cannot_watch() {
        let (start, mut age) = (Instant::now(), LeaseAge::default());
        age.read(Some(time(0)), None, start);
        assert_eq!(age.leaderless_since(start, time(0)), None);
        age.read(Some(time(5)), Some(blindness(-60)), start);
        assert_eq!(age.leaderless_since(start, time(5)), Some(time(-60)));
        assert_eq!(age.unrenewed_since(start, time(5)), None);
        age.read(Some(time(10)), Some(blindness(90)), start);
        assert_eq!(age.leaderless_since(start, time(10)), Some(time(10)), "its clock is ahead");
        age.read(Some(time(15)), None, start);
        assert_eq!(age.leaderless_since(start, time(15)), None, "it can again");
    }

    #[test]
    fn rule_9_a_leader_that_could_not_watch_counts_as_none_also_after_it_gave_the_lease_back() {
        let mut lease: Lease = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "lease"},
            "spec": {"holderIdentity": "c-0", "renewTime": "2026-01-01T00:00:00.000000Z"},
        }))
        .unwrap();
        let renewed = lease_renewed(&lease).unwrap();
        assert_eq!(lease_worked(&lease), Some(renewed));
        let since = renewed - chrono::TimeDelta::seconds(60);
        Blindness::write(Some(&Blindness { since: since.into(), ..blindness(0) }), &mut lease.metadata);
        for holder in ["c-0", ""] {
            lease.spec.as_mut().unwrap().holder_identity = Some(holder.to_owned());
            assert_eq!(lease_worked(&lease), Some(since));
        }
    }
}
