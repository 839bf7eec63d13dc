//! The record of the eviction in a write of the controller.

use chrono::{DateTime, Utc};
use evacuation_api::{AttemptResult, EvictionAction, EvictionStatus};

use super::StatusError;
use crate::{
    eviction::ATTEMPT_TIMEOUT_SECONDS,
    time::{after, stamp},
};

/// The kinds of attempts that may begin.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Every responder is done, and a requester that has not expired is awake.
    pub(super) attempt: bool,
    /// A Delete deadline was reached.
    pub(super) deletion: bool,
}

/// Returns the record after the write. The message and result of an earlier attempt do not stay with a new
/// one.
pub(super) fn check_eviction(
    was: Option<&EvictionStatus>,
    proposed: Option<EvictionStatus>,
    allowed: Allowed,
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
    // A controller whose clock is ahead takes an attempt for lost that is still on its way.
    let lost = ends && !proposed.accepted && proposed.last_attempt_result == Some(AttemptResult::NotTaken);
    let over = was.last_attempt_time.map(|time| after(time.0, ATTEMPT_TIMEOUT_SECONDS));
    let early = over.filter(|over| lost && now < *over);
    let begins = proposed.in_flight && !was.in_flight;
    let result =
        if ends { proposed.last_attempt_result } else { was.last_attempt_result.filter(|_| !begins) };
    if result.is_some_and(|result| (result == AttemptResult::Accepted) != proposed.accepted) {
        wrong("the result of the last attempt says Accepted just when it was");
    }
    if begins && proposed.action == Some(EvictionAction::Delete) && !allowed.deletion {
        wrong("a deletion needs a Delete deadline that was reached");
    }
    if begins && was.accepted {
        wrong("the pod is on its way out already");
    }
    if begins && !allowed.attempt {
        wrong(
            "an attempt needs every responder Completed or Interrupted, and a requester that neither sleeps nor has expired",
        );
    }
    if let Some(until) = early {
        let what = "the attempt is taken for lost".to_owned();
        errors.push(StatusError::NotYet { what, until });
    }
    Some(EvictionStatus {
        attempts: was.attempts.saturating_add(i32::from(begins)),
        action: if begins { proposed.action } else { was.action },
        last_attempt_time: if begins { Some(stamp(now)) } else { was.last_attempt_time },
        last_attempt_result: result,
        message: proposed.message.filter(|_| !begins),
        ..proposed
    })
}
