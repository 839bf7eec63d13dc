//! The record of an attempt to evict or delete.

use chrono::{DateTime, Utc};
use evacuation_api::{
    BlockedReason, DeadlineAction, EvacuatedReason, EvacuationStatus, EvictionAction, EvictionStatus, Policy,
};

use super::EvictionOutcome;
use crate::{
    policy::reached,
    status::{Block, succeed, truncated, unblock},
    time::{after_millis, stamp},
};

/// Time in seconds after which an attempt with an unknown outcome is resolved by a read of the pod. No
/// attempt can take effect any more then: its timeouts, of the client and of the server, together end before.
pub const ATTEMPT_TIMEOUT_SECONDS: i64 = 10;

/// Interval of the probes of an eviction that a budget holds back, in seconds. A webhook or a stale budget
/// can hide the truth.
pub const PROBE_SECONDS: i64 = 60;

/// The message of an attempt whose reply was lost and that did not evict the pod.
const NOT_TAKEN: &str = "the reply to the last attempt was lost and the pod did not go";

/// Returns true when the last attempt is a deletion. A record without the action is one if it was made after
/// a Delete deadline.
pub(crate) fn is_deletion(policy: &Policy, eviction: &EvictionStatus) -> bool {
    if let Some(action) = eviction.action {
        return action == EvictionAction::Delete;
    }
    reached(policy, DeadlineAction::Delete)
        .is_some_and(|deadline| eviction.last_attempt_time >= Some(deadline.time))
}

/// Returns the delay before the next attempt, in milliseconds: 1 s doubled with each attempt up to 60 s, less
/// up to a quarter by `jitter` (from 0 to 1), and at least what the API asked for.
pub fn retry_delay(attempts: i32, retry_after_seconds: Option<u32>, jitter: f64) -> i64 {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or_default().min(6);
    let full = (1000_i64 << doublings).min(PROBE_SECONDS * 1000);
    // Within 0..=250: no cast can go wrong.
    #[allow(clippy::cast_possible_truncation)]
    let share = (jitter.clamp(0.0, 1.0) * 250.0) as i64;
    let asked = i64::from(retry_after_seconds.unwrap_or_default()) * 1000;
    (full - full * share / 1000).max(asked)
}

/// Returns the status with the outcome of the attempt in flight, which the controller writes. `jitter` is
/// from 0 to 1. Without an attempt in flight nothing changes.
///
/// A budget's refusal sets `nextAttemptTime` to the next probe; the queue of the budget may let the pod go
/// before that.
#[must_use]
pub fn record_eviction(
    status: &EvacuationStatus,
    outcome: &EvictionOutcome,
    jitter: f64,
    now: DateTime<Utc>,
) -> EvacuationStatus {
    let mut status = status.clone();
    let Some(eviction) = status.eviction.as_mut().filter(|e| e.in_flight) else {
        return status;
    };
    eviction.in_flight = false;
    eviction.last_attempt_result = Some(outcome.result());
    eviction.next_attempt_time = None;
    eviction.message = None;
    let attempts = eviction.attempts;
    let mut again = |milliseconds: i64, message: &str| {
        eviction.next_attempt_time = Some(stamp(after_millis(now, milliseconds)));
        eviction.message = Some(truncated(message));
    };
    match outcome {
        EvictionOutcome::Accepted => {
            eviction.accepted = true;
            unblock(&mut status, now);
        }
        EvictionOutcome::BudgetExhausted { retry_after_seconds, message, budgets } => {
            let asked = i64::from(retry_after_seconds.unwrap_or_default());
            again(asked.max(PROBE_SECONDS) * 1000, message);
            let block = Block::budgets(BlockedReason::BudgetExhausted, budgets, message);
            if !block.is_known_better(&status) {
                block.put(&mut status, now);
            }
        }
        EvictionOutcome::MultipleBudgets { message, budgets } => {
            again(PROBE_SECONDS * 1000, message);
            // The API does not say which.
            let named = format!("budgets {}: {message}", budgets.join(", "));
            let block = Block::budgets(BlockedReason::MultipleBudgets, budgets, &named);
            if !block.is_known_better(&status) {
                block.put(&mut status, now);
            }
        }
        EvictionOutcome::Rejected { retry_after_seconds, message } => {
            again(retry_delay(attempts, *retry_after_seconds, jitter), message);
            Block::new(BlockedReason::EvictionRejected, message).put(&mut status, now);
        }
        EvictionOutcome::PodGone | EvictionOutcome::UidMismatch => {
            succeed(
                &mut status,
                EvacuatedReason::GoneByOther,
                "the pod was gone when its eviction came",
                now,
            );
        }
        // At once: whatever held the reply back is over.
        EvictionOutcome::NotTaken => {
            again(0, NOT_TAKEN);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finished_reason,
        testing::{at, condition, evacuation},
    };
    use evacuation_api::AttemptResult;

    fn in_flight() -> EvacuationStatus {
        EvacuationStatus {
            responders: Some(Vec::new()),
            eviction: Some(EvictionStatus { attempts: 3, in_flight: true, ..EvictionStatus::default() }),
            ..evacuation().status.unwrap()
        }
    }

    /// The eviction and the condition Blocked that an outcome leads to.
    fn after_outcome(outcome: &EvictionOutcome) -> (EvictionStatus, Option<(String, String)>) {
        let status = record_eviction(&in_flight(), outcome, 0.0, at(100));
        let blocked = status.conditions.iter().find(|c| c.type_ == "Blocked");
        (status.eviction.clone().unwrap(), blocked.map(|c| (c.status.clone(), c.reason.clone())))
    }

    #[test]
    fn an_accepted_eviction_is_recorded_and_nothing_blocks_any_more() {
        let mut status = in_flight();
        status.conditions = vec![condition("Blocked", "True", "BudgetExhausted")];
        let status = record_eviction(&status, &EvictionOutcome::Accepted, 0.0, at(100));
        let eviction = status.eviction.as_ref().unwrap();
        assert!(eviction.accepted && !eviction.in_flight && eviction.next_attempt_time.is_none());
        assert_eq!(
            (status.conditions[0].status.as_str(), status.conditions[0].reason.as_str()),
            ("False", "NotBlocked")
        );
        assert_eq!(finished_reason(&status), None, "the pod is still there");
    }

    #[test]
    fn a_refused_attempt_names_who_blocks_and_when_it_is_made_again() {
        let message = "The disruption budget db needs 3 healthy pods and has 2 currently".to_owned();
        let budgets = vec!["db".to_owned()];
        let (eviction, blocked) = after_outcome(&EvictionOutcome::BudgetExhausted {
            retry_after_seconds: None,
            message: message.clone(),
            budgets,
        });
        assert_eq!(blocked, Some(("True".to_owned(), "BudgetExhausted".to_owned())));
        assert_eq!(eviction.blocked_by[0].kind, "PodDisruptionBudget");
        assert_eq!((eviction.blocked_by[0].name.as_str(), eviction.message), ("db", Some(message)));
        assert_eq!(eviction.next_attempt_time, Some(at(160).into()));

        let budgets = vec!["one".to_owned(), "two".to_owned()];
        let outcome = EvictionOutcome::MultipleBudgets { message: "two budgets".to_owned(), budgets };
        let (eviction, blocked) = after_outcome(&outcome);
        assert_eq!(blocked.unwrap().1, "MultipleBudgets");
        let status = record_eviction(&in_flight(), &outcome, 0.0, at(100));
        let blocked = status.conditions.iter().find(|c| c.type_ == "Blocked");
        assert_eq!(blocked.unwrap().message, "budgets one, two: two budgets");
        assert_eq!(eviction.blocked_by.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);

        let rejected = |retry_after_seconds| EvictionOutcome::Rejected {
            retry_after_seconds,
            message: "denied by webhook".to_owned(),
        };
        let (eviction, blocked) = after_outcome(&rejected(None));
        assert_eq!(blocked.unwrap().1, "EvictionRejected");
        assert_eq!(eviction.next_attempt_time, Some(at(104).into()));
        assert_eq!(after_outcome(&rejected(Some(30))).0.next_attempt_time, Some(at(130).into()));

        let (eviction, blocked) = after_outcome(&EvictionOutcome::NotTaken);
        assert_eq!((eviction.next_attempt_time, blocked), (Some(at(100).into()), None));
        assert_eq!(eviction.last_attempt_result, Some(AttemptResult::NotTaken));
        assert_eq!(after_outcome(&rejected(None)).0.last_attempt_result, Some(AttemptResult::Rejected));
    }

    #[test]
    fn what_a_webhook_says_at_length_is_cut() {
        let (eviction, _) = after_outcome(&EvictionOutcome::Rejected {
            retry_after_seconds: None,
            message: "no ".repeat(100_000),
        });
        let said = eviction.message.unwrap();
        assert!(said.starts_with("no no") && said.len() <= 1024, "{} bytes", said.len());
    }

    #[test]
    fn a_target_that_was_gone_before_ends_the_evacuation() {
        for outcome in [EvictionOutcome::PodGone, EvictionOutcome::UidMismatch] {
            let status = record_eviction(&in_flight(), &outcome, 0.0, at(100));
            assert_eq!(finished_reason(&status), Some("GoneByOther"));
            assert!(!status.eviction.unwrap().in_flight);
        }
    }

    #[test]
    fn an_outcome_without_an_attempt_changes_nothing() {
        let mut status = in_flight();
        status.eviction.as_mut().unwrap().in_flight = false;
        assert_eq!(record_eviction(&status, &EvictionOutcome::Accepted, 0.0, at(100)), status);
    }

    #[test]
    fn attempts_back_off_to_a_minute_with_jitter() {
        let table = [
            (0, None, 0.0, 1000),
            (1, None, 0.0, 1000),
            (2, None, 0.0, 2000),
            (6, None, 0.0, 32_000),
            (7, None, 0.0, 60_000),
            (i32::MAX, None, 0.0, 60_000),
            (1, None, 1.0, 750),
            (7, None, 0.5, 52_500),
            (1, Some(10), 1.0, 10_000),
            (7, Some(10), 0.0, 60_000),
            (1, None, 9.0, 750),
        ];
        for (attempts, retry_after, jitter, expected) in table {
            assert_eq!(
                retry_delay(attempts, retry_after, jitter),
                expected,
                "{attempts} {retry_after:?} {jitter}"
            );
        }
    }
}
