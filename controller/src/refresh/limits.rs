//! Flags of the refresher, and the limits that they set.

use chrono::{DateTime, TimeDelta, Utc};
use clap::{ArgAction, Args};
use evacuation_api::parse_duration;

/// Time for which an Evacuation is kept beyond the longest backoff. An owner that is refreshed less often
/// counts as new, and has waited long enough.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// Flags for pods that are stuck in CrashLoopBackOff.
#[derive(Clone, Debug, Args)]
pub struct RefreshOptions {
    /// Ask pods stuck in CrashLoopBackOff to move, if they opted in.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub refresh: bool,
    /// Time between two refreshes of an owner's pods; it doubles each time.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub refresh_backoff: TimeDelta,
    /// Maximum time between two refreshes of an owner's pods.
    #[arg(long, default_value = "6h", value_parser = parse_duration)]
    pub refresh_longest_backoff: TimeDelta,
    /// Time for which all pods of an owner must be ready until its backoff starts again.
    #[arg(long, default_value = "30m", value_parser = parse_duration)]
    pub refresh_settled_after: TimeDelta,
    /// Time for which a pod must be ready until its request is withdrawn.
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    pub refresh_recovered_after: TimeDelta,
    /// Maximum number of pods of the cluster that are asked within a minute.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub refresh_per_minute: u16,
}

/// Limits that the flags set.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// First backoff of an owner.
    pub(super) backoff: TimeDelta,
    /// Longest backoff of an owner.
    pub(super) longest_backoff: TimeDelta,
    /// Time for which all pods of an owner must be ready until its backoff starts again.
    pub(super) settled_after: TimeDelta,
    /// Time for which a pod must be ready until its request is withdrawn.
    pub(super) recovered_after: TimeDelta,
    /// Maximum number of pods that are asked within a minute.
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
    /// Returns the backoff after an attempt, the first being 1. It doubles with each attempt, up to the
    /// longest.
    pub(super) fn backoff(&self, attempt: u32) -> TimeDelta {
        let factor = 1_i32.checked_shl(attempt.saturating_sub(1).min(30)).unwrap_or(i32::MAX);
        self.backoff
            .checked_mul(factor)
            .map_or(self.longest_backoff, |doubled| doubled.min(self.longest_backoff))
    }

    /// Time for which an Evacuation is kept after its end, in seconds. It is longer than the Evacuation can
    /// hold others back.
    pub(super) fn kept_seconds(&self) -> i64 {
        (self.longest_backoff + KEPT).num_seconds()
    }

    /// Returns the time at which the next pod of the cluster may be asked. `None` if that is now. `recent`
    /// are the times at which pods were asked, in any order.
    pub(super) fn room_at(&self, recent: &[DateTime<Utc>], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // The server's times are cut to whole seconds. One second more is never too early.
        let minute = TimeDelta::seconds(61);
        let mut last: Vec<_> = recent.iter().filter(|time| **time + minute > now).collect();
        last.sort_unstable_by(|a, b| b.cmp(a));
        last.get(self.per_minute.saturating_sub(1)).map(|oldest| **oldest + minute)
    }
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
