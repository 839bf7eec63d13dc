//! The record of the eviction in a write of the controller.

use chrono::{DateTime, Utc};
use evacuation_api::EvictionStatus;

use crate::{StatusError, time::stamp};

/// The record that results. `may_attempt` says whether every responder is done and somebody still wants the pod moved.
pub(super) fn check_eviction(
    was: Option<&EvictionStatus>,
    proposed: Option<EvictionStatus>,
    may_attempt: bool,
    now: DateTime<Utc>,
    errors: &mut Vec<StatusError>,
) -> Option<EvictionStatus> {
    let mut wrong = |why| errors.push(StatusError::Eviction { why });
    let Some(proposed) = proposed else {
        if was.is_some() {
            wrong("the record cannot be removed");
        }
        return was.cloned();
    };
    let was = was.cloned().unwrap_or_default();
    if was.accepted && !proposed.accepted {
        wrong("what was accepted stays accepted");
    }
    let ends = was.in_flight && !proposed.in_flight;
    if proposed.accepted && !was.accepted && !ends {
        wrong("only the outcome of an attempt in flight is accepted");
    }
    let begins = proposed.in_flight && !was.in_flight;
    if begins && was.accepted {
        wrong("the pod is on its way out already");
    }
    if begins && !may_attempt {
        wrong(
            "an attempt needs every responder Completed or Interrupted, and a requester that has not lapsed",
        );
    }
    Some(EvictionStatus {
        attempts: was.attempts.saturating_add(i32::from(begins)),
        action: if begins { proposed.action } else { was.action },
        last_attempt_time: if begins {
            Some(stamp(now))
        } else {
            was.last_attempt_time
        },
        ..proposed
    })
}
