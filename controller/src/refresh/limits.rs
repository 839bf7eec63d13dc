//! Flags of the refresher, and the limits that they set.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{ArgAction, Args};
use evacuation_api::parse_duration;

use super::hold::Hold;

/// Time for which an Evacuation is kept beyond the longest backoff. An owner that is refreshed less often
/// counts as new, and has waited long enough.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// Time for which a request counts. The server's times are cut to whole seconds: one more is never too early.
const MINUTE: TimeDelta = TimeDelta::seconds(61);
/// Share of a namespace in the requests of the cluster: a quarter.
const SHARE_DIVISOR: usize = 4;

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
    /// Maximum number of pods of the cluster that are asked within a minute. One namespace has a quarter.
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

    /// Returns the reason for which no pod of the namespace may be asked now, and its end.
    ///
    /// A namespace has a quarter of the requests of the whole cluster, rounded up. Its requests beyond that
    /// do not count against others.
    pub(super) fn hold(
        &self,
        recent: &Recent,
        namespace: &str,
        now: DateTime<Utc>,
    ) -> Option<(Hold, DateTime<Utc>)> {
        let share = self.per_minute.div_ceil(SHARE_DIVISOR);
        let own = recent.0.get(namespace).map(Vec::as_slice).unwrap_or_default();
        let own = full_until(last_minute(own, now), share).map(|until| (Hold::NamespaceShare, until));
        own.or_else(|| {
            let counted = |times: &Vec<_>| last_minute(times, now).into_iter().take(share);
            let all = recent.0.values().flat_map(counted).collect();
            full_until(all, self.per_minute).map(|until| (Hold::RateLimit, until))
        })
    }
}

/// Times at which pods were asked lately, by namespace and in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(BTreeMap<String, Vec<DateTime<Utc>>>);

impl Recent {
    /// Adds a request.
    pub(super) fn add(&mut self, namespace: &str, time: DateTime<Utc>) {
        self.0.entry(namespace.to_owned()).or_default().push(time);
    }
}

/// Returns the times that count at `now`, newest first.
fn last_minute(times: &[DateTime<Utc>], now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut last: Vec<_> = times.iter().copied().filter(|time| *time + MINUTE > now).collect();
    last.sort_unstable_by(|a, b| b.cmp(a));
    last
}

/// Returns the time from which fewer than `limit` of these times count. `None` if that is now.
fn full_until(mut times: Vec<DateTime<Utc>>, limit: usize) -> Option<DateTime<Utc>> {
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.get(limit.saturating_sub(1)).map(|oldest| *oldest + MINUTE)
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

    /// Returns the hold of namespace `a` at second 110, after requests of `a` and of others.
    fn held(per_minute: usize, own: &[i64], others: &[(&str, i64)]) -> Option<(&'static str, i64)> {
        let mut recent = Recent::default();
        for (namespace, time) in own.iter().map(|time| ("a", *time)).chain(others.iter().copied()) {
            recent.add(namespace, at(time));
        }
        let held = Limits { per_minute, ..limits() }.hold(&recent, "a", at(110));
        held.map(|(hold, until)| (hold.as_str(), until.timestamp() - at(0).timestamp()))
    }

    #[test]
    fn no_more_than_so_many_are_asked_within_a_minute() {
        for (others, expected) in [
            (&[][..], None),
            (&[("b", 100)], None),
            (&[("b", 100), ("c", 110)], Some(("rate_limit", 161))),
            (&[("b", 110), ("c", 100), ("d", 105)], Some(("rate_limit", 166))),
            (&[("b", 10), ("c", 110)], None),
            (&[("b", 49), ("c", 110)], None),
        ] {
            assert_eq!(held(2, &[], others), expected, "{others:?}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a tenant with many apps in crash loops
    /// - Act: uses up the requests that the refresher makes in a minute
    /// - Promise: 8
    #[test]
    fn a_namespace_has_a_quarter_and_a_flood_in_another_does_not_stop_it() {
        assert_eq!(held(8, &[100], &[]), None);
        assert_eq!(held(8, &[101, 100], &[]), Some(("namespace_share", 161)));
        let flood: Vec<_> = (90..110).map(|second| ("b", second)).collect();
        assert_eq!(held(8, &[100], &flood), None, "what exceeds a share does not count");
        assert_eq!(held(1, &[], &[]), None, "a share is one at least");
    }
}
