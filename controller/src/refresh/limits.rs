//! The command line of the requester, and the limits that it sets.

use chrono::{DateTime, TimeDelta, Utc};
use clap::{ArgAction, Args};

use super::duration::{NotADuration, parse_duration};

/// How long an Evacuation is kept beyond the longest backoff. An owner that is refreshed less often than this starts anew,
/// which takes nothing away: it waits for longer than it would have to.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// How pods that are stuck in CrashLoopBackOff are refreshed.
#[derive(Clone, Debug, Args)]
pub struct RefreshOptions {
    /// Whether pods stuck in CrashLoopBackOff that opted in are asked to move.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub refresh: bool,
    /// How long the pods of an owner are left alone after one of them was refreshed; it doubles with each time.
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub refresh_backoff: TimeDelta,
    /// How long they are left alone at most.
    #[arg(long, default_value = "6h", value_parser = duration)]
    pub refresh_longest_backoff: TimeDelta,
    /// How long all pods of an owner have to be ready for the backoff to begin anew.
    #[arg(long, default_value = "30m", value_parser = duration)]
    pub refresh_settled_after: TimeDelta,
    /// How long a pod has to be ready for its request to be taken back.
    #[arg(long, default_value = "1m", value_parser = duration)]
    pub refresh_recovered_after: TimeDelta,
    /// How many pods of the whole cluster are asked within a minute.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub refresh_per_minute: u16,
}

/// The limits that the command line sets.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The first backoff of an owner.
    pub(super) backoff: TimeDelta,
    /// The longest one.
    pub(super) longest_backoff: TimeDelta,
    /// How long all pods of an owner have to be ready for the backoff to begin anew.
    pub(super) settled_after: TimeDelta,
    /// How long a pod has to be ready for its request to be taken back.
    pub(super) recovered_after: TimeDelta,
    /// How many pods are asked within a minute.
    pub(super) per_minute: usize,
}

impl From<&RefreshOptions> for Limits {
    fn from(options: &RefreshOptions) -> Self {
        Self {
            backoff: options.refresh_backoff,
            longest_backoff: options.refresh_longest_backoff.max(options.refresh_backoff),
            settled_after: options.refresh_settled_after,
            recovered_after: options.refresh_recovered_after,
            per_minute: options.refresh_per_minute.into(),
        }
    }
}

impl Limits {
    /// How long an owner's pods are left alone after that attempt, the first being 1: doubled with each, up to the longest.
    pub(super) fn backoff(&self, attempt: u32) -> TimeDelta {
        let factor = 1_i32.checked_shl(attempt.saturating_sub(1).min(30)).unwrap_or(i32::MAX);
        self.backoff
            .checked_mul(factor)
            .map_or(self.longest_backoff, |doubled| doubled.min(self.longest_backoff))
    }

    /// How long an Evacuation is kept after its end, in seconds: for as long as it holds others back, and longer.
    pub(super) fn kept_seconds(&self) -> i64 {
        (self.longest_backoff + KEPT).num_seconds()
    }

    /// When the next pod of the cluster may be asked; `None` when one may be now. `recent` is when pods were asked, in
    /// any order.
    pub(super) fn room_at(&self, recent: &[DateTime<Utc>], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // The server's times are cut to whole seconds: one more, so that it is never too early.
        let minute = TimeDelta::seconds(61);
        let mut last: Vec<_> = recent.iter().filter(|time| **time + minute > now).collect();
        last.sort_unstable_by(|a, b| b.cmp(a));
        last.get(self.per_minute.saturating_sub(1)).map(|oldest| **oldest + minute)
    }
}

fn duration(text: &str) -> Result<TimeDelta, NotADuration> {
    parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{at, limits},
        *,
    };

    #[test]
    fn the_backoff_doubles_up_to_the_longest() {
        for (attempt, minutes) in
            [(0, 10), (1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (8, 360), (u32::MAX, 360)]
        {
            assert_eq!(limits().backoff(attempt), TimeDelta::minutes(minutes), "{attempt}");
        }
    }

    #[test]
    fn what_is_kept_outlives_the_longest_backoff() {
        assert!(limits().kept_seconds() > limits().longest_backoff.num_seconds());
    }

    #[test]
    fn no_more_than_so_many_are_asked_within_a_minute() {
        let limits = Limits { per_minute: 2, ..limits() };
        for (recent, room_at) in [
            (vec![], None),
            (vec![at(100)], None),
            (vec![at(100), at(110)], Some(161)),
            (vec![at(110), at(100), at(105)], Some(166)),
            (vec![at(10), at(110)], None),
            (vec![at(49), at(110)], None),
        ] {
            assert_eq!(limits.room_at(&recent, at(110)), room_at.map(at), "{recent:?}");
        }
    }
}
