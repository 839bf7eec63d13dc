//! Derivation of the policy from the entries.

use chrono::{DateTime, Utc};
use evacuation_api::{EvacuationStatus, Policy, RefusalPolicy, Requester, ScheduledDeadline};

use super::{
    deadline::{self, has_expired},
    window::{self, is_awake, next_opening},
};
use crate::time::{sooner, stamp};

/// Derives the policy of the entries at `now` from the previous policy.
///
/// # Guarantees
///
/// `onRefusal` is the hardest of the live entries that are awake, or `GiveUp` when there is none. An entry
/// expires when its `GiveUp` deadline is reached. It sleeps until its window opens or its other deadline is
/// reached. The grace period is the smallest of those entries. Deadlines and windows are sorted. A deadline
/// that was reached stays reached while its entry exists, and a window while its entry has it, even when the
/// clock goes back.
pub fn derive_policy(requesters: &[Requester], previous: Option<&Policy>, now: DateTime<Utc>) -> Policy {
    let before = previous.map(|p| p.deadlines.as_slice()).unwrap_or_default();
    let mut deadlines: Vec<_> = requesters.iter().flat_map(|r| deadline::schedule(r, before, now)).collect();
    let order = |row: &ScheduledDeadline| (row.time, row.requester.clone(), row.owner.clone(), row.action);
    deadlines.sort_by_cached_key(order);
    let before = previous.map(|p| p.windows.as_slice()).unwrap_or_default();
    let times = Policy { deadlines, windows: window::schedule(requesters, before, now), ..Policy::default() };

    let counts = |r: &&Requester| !has_expired(&times, r.key()) && is_awake(r, &times);
    let counting = || requesters.iter().filter(counts);
    Policy {
        on_refusal: counting()
            .map(|r| r.on_refusal.unwrap_or_default())
            .max()
            .unwrap_or(RefusalPolicy::GiveUp),
        grace_period_seconds: counting().filter_map(|r| r.grace_period_seconds).min(),
        next_window_time: next_opening(requesters, &times).map(stamp),
        ..times
    }
}

/// Returns the time at which the policy changes by itself: the next deadline that was not reached yet, or the
/// next window.
pub(crate) fn next_change(policy: &Policy) -> Option<DateTime<Utc>> {
    let deadline = policy.deadlines.iter().find(|d| !d.reached).map(|d| d.time.0);
    sooner(deadline, policy.next_window_time.map(|time| time.0))
}

/// Returns the policy of a status by `now`.
pub(crate) fn policy_at(requesters: &[Requester], status: &EvacuationStatus, now: DateTime<Utc>) -> Policy {
    derive_policy(requesters, status.policy.as_ref(), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::{all_expired, next_forcing},
        testing::{at, requester},
    };
    use evacuation_api::{
        DeadlineAction::{self, Delete, Evict},
        RefusalPolicy::{GiveUp, Override, Wait},
    };

    #[test]
    fn the_hardest_of_the_live_entries_counts() {
        type Entry = (RefusalPolicy, Option<i64>);
        let table: &[(&[Entry], RefusalPolicy)] = &[
            (&[(GiveUp, None)], GiveUp),
            (&[(GiveUp, None), (Wait, None)], Wait),
            (&[(Override, None), (Wait, None), (GiveUp, None)], Override),
            (&[(Override, Some(10)), (Wait, None)], Override),
            (&[(Override, Some(5)), (Wait, None)], Wait),
            (&[(Override, Some(5)), (Wait, Some(1))], GiveUp),
        ];
        for (entries, expected) in table {
            let requesters: Vec<_> = entries
                .iter()
                .enumerate()
                .map(|(i, (on_refusal, give_up))| {
                    let mut r = requester(&format!("r{i}"));
                    r.on_refusal = Some(*on_refusal);
                    r.deadline = give_up.map(|s| at(s).into());
                    r.at_deadline = give_up.map(|_| DeadlineAction::GiveUp);
                    r
                })
                .collect();
            assert_eq!(derive_policy(&requesters, None, at(5)).on_refusal, *expected, "{entries:?}");
        }
    }

    #[test]
    fn the_smallest_grace_period_of_the_live_entries_counts() {
        let mut requesters = [requester("a"), requester("b"), requester("c")];
        requesters[0].grace_period_seconds = Some(30);
        requesters[1].grace_period_seconds = Some(5);
        requesters[1].deadline = Some(at(10).into());
        requesters[1].at_deadline = Some(DeadlineAction::GiveUp);
        assert_eq!(derive_policy(&requesters, None, at(0)).grace_period_seconds, Some(5));
        assert_eq!(derive_policy(&requesters, None, at(10)).grace_period_seconds, Some(30));
        assert_eq!(derive_policy(&requesters[2..], None, at(0)).grace_period_seconds, None);
    }

    fn with_deadline(name: &str, seconds: i64, action: DeadlineAction) -> Requester {
        Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..requester(name) }
    }

    #[test]
    fn deadlines_are_a_schedule_in_order_of_time() {
        let requesters = [
            with_deadline("a", 30, Delete),
            with_deadline("b", 10, Evict),
            with_deadline("c", 20, DeadlineAction::GiveUp),
        ];
        let policy = derive_policy(&requesters, None, at(20));
        let rows: Vec<_> =
            policy.deadlines.iter().map(|d| (d.requester.as_str(), d.action, d.reached)).collect();
        assert_eq!(rows, [("b", Evict, true), ("c", DeadlineAction::GiveUp, true), ("a", Delete, false)]);
        let lapsed = |i: usize| has_expired(&policy, requesters[i].key());
        assert!(lapsed(2) && !lapsed(0) && !all_expired(&requesters, &policy));
        assert_eq!(next_forcing(&policy).map(|d| d.requester.as_str()), Some("a"));
    }

    #[test]
    fn a_deadline_that_was_reached_stays_reached_while_its_entry_is_there() {
        let mut requesters = [with_deadline("a", 10, Evict)];
        let reached = derive_policy(&requesters, None, at(10));
        assert!(
            derive_policy(&requesters, Some(&reached), at(9)).deadlines[0].reached,
            "the clock went back"
        );

        requesters[0].deadline = Some(at(100).into());
        let moved = derive_policy(&requesters, Some(&reached), at(11));
        assert_eq!(moved.deadlines, reached.deadlines, "moving it later undoes nothing");

        requesters[0].deadline = None;
        assert_eq!(derive_policy(&requesters, Some(&moved), at(11)).deadlines, reached.deadlines);
        assert_eq!(derive_policy(&[requester("b")], Some(&moved), at(11)).deadlines, [], "the entry left");
    }

    #[test]
    fn an_entry_whose_deadline_was_reached_can_still_name_a_harder_one() {
        let reached = derive_policy(&[with_deadline("a", 10, Evict)], None, at(10));
        let policy = derive_policy(&[with_deadline("a", 60, Delete)], Some(&reached), at(11));
        let rows: Vec<_> = policy.deadlines.iter().map(|d| (d.action, d.reached)).collect();
        assert_eq!(rows, [(Evict, true), (Delete, false)]);
    }
}
