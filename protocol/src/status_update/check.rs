//! Check of a write of the status by the controller.

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionType, DeadlineAction, Evacuation, EvacuationStatus, Policy, ScheduledDeadline, ScheduledWindow,
};

use super::{
    StatusError,
    conditions::Conditions,
    eviction::{Allowed, check_eviction},
    responders::Responders,
};
use crate::{
    policy::{all_asleep, all_expired, forced, policy_at, reached},
    status::{finish, finished_reason, is_finished, time_budgets},
};

/// Returns the status after the controller's write, or every error in it.
///
/// # Guarantees
///
/// The fields of the server and the responders are restored: recorded requesters, policy (derived again by
/// `now`), the list of responders, answers and their times. Times are stamped with `now`.
///
/// Every change of a responder's state is in [`TRANSITIONS`](crate::TRANSITIONS) and due by `now`. At most
/// one responder is Active, and the order of priority is kept. While every live entry sleeps, no responder is
/// asked or passed over.
///
/// The time since which budgets hold the eviction back restarts when another reason came in between.
///
/// An attempt to evict is recorded only when every responder is done, never in a rehearsal, and a deletion
/// only after a Delete deadline. An attempt counts as lost only when its time is over. Nothing changes after
/// the end. If the write ends the Evacuation, responders that are not done become Canceled, and `Finished`
/// and `finishTime` are set.
///
/// # Errors
///
/// Every error, with its field. If a step is too early by the server's clock, only that error:
/// [`StatusError::NotYet`] alone means that the same write is valid later.
pub fn check_status_update(
    old: &Evacuation,
    proposed: EvacuationStatus,
    now: DateTime<Utc>,
) -> Result<EvacuationStatus, Vec<StatusError>> {
    let default = EvacuationStatus::default();
    let was = old.status.as_ref().unwrap_or(&default);
    if is_finished(was) {
        return unchanged(was, proposed).map_err(|error| vec![error]);
    }
    let mut errors = Vec::new();
    let policy = policy_at(&old.spec.requesters, was, now);
    errors.extend(premature(proposed.policy.as_ref(), &policy));
    let ending = proposed.is_true(ConditionType::Evacuated) || proposed.is_true(ConditionType::Failed);

    let sleeps = all_asleep(&old.spec.requesters, &policy);
    let rehearsal = old.spec.rehearsal;
    let responders = Responders {
        was: was.responders.as_deref(),
        policy: &policy,
        asleep: sleeps,
        ending,
        rehearsal,
        now,
    }
    .check(proposed.responders, &mut errors);
    let all_done = responders
        .as_ref()
        .map_or_else(|| forced(&policy).is_some(), |all| all.iter().all(|r| r.state.is_done()));
    let allowed = Allowed {
        attempt: all_done && !ending && !sleeps && !rehearsal && !all_expired(&old.spec.requesters, &policy),
        deletion: reached(&policy, DeadlineAction::Delete).is_some(),
    };
    let eviction = check_eviction(was.eviction.as_ref(), proposed.eviction, allowed, now, &mut errors);
    let conditions =
        Conditions { old, was, policy: &policy, asleep: sleeps, eviction: eviction.as_ref(), now }
            .check(proposed.conditions, &mut errors);

    let mut next = EvacuationStatus {
        observed_generation: was
            .observed_generation
            .max(proposed.observed_generation)
            .min(old.metadata.generation),
        node_name: was.node_name.clone(),
        requesters: was.requesters.clone(),
        policy: Some(policy),
        responders,
        registration: was.registration.clone(),
        eviction,
        conditions,
        finish_time: None,
    };
    finish(&mut next, now);
    time_budgets(was, &mut next, now);
    // What comes too early drags other errors along: they say nothing of the write itself.
    if errors.iter().any(is_early) {
        errors.retain(is_early);
    }
    if errors.is_empty() { Ok(next) } else { Err(errors) }
}

fn is_early(error: &StatusError) -> bool {
    matches!(error, StatusError::NotYet { .. })
}

/// Returns the deadlines and windows that are reached in the write, but not by the server's clock. The error
/// keeps a controller whose clock is ahead from repeating the write.
fn premature(proposed: Option<&Policy>, derived: &Policy) -> Vec<StatusError> {
    let reached = |row: &ScheduledDeadline| {
        proposed.is_some_and(|p| {
            p.deadlines.iter().any(|d| d.reached && (d.key(), d.time) == (row.key(), row.time))
        })
    };
    let woke = |row: &ScheduledWindow| {
        proposed.is_some_and(|p| {
            p.windows.iter().any(|w| w.reached && (w.key(), w.time) == (row.key(), row.time))
        })
    };
    let deadlines = derived.deadlines.iter().filter(|row| !row.reached && reached(row));
    let deadlines = deadlines.map(|row| StatusError::NotYet {
        what: format!("the deadline of {} is reached", row.requester),
        until: row.time.0,
    });
    let windows = derived.windows.iter().filter(|row| !row.reached && woke(row));
    let windows = windows.map(|row| StatusError::NotYet {
        what: format!("the window of {} opens", row.requester),
        until: row.time.0,
    });
    deadlines.chain(windows).collect()
}

/// Checks a write after the end: it may only repeat the stored status.
fn unchanged(was: &EvacuationStatus, proposed: EvacuationStatus) -> Result<EvacuationStatus, StatusError> {
    let restored = EvacuationStatus {
        observed_generation: was.observed_generation,
        node_name: was.node_name.clone(),
        requesters: was.requesters.clone(),
        policy: was.policy.clone(),
        registration: was.registration.clone(),
        finish_time: was.finish_time,
        ..proposed
    };
    if restored == *was {
        Ok(restored)
    } else {
        Err(StatusError::Finished { reason: finished_reason(was).unwrap_or_default().to_owned() })
    }
}

#[cfg(test)]
mod tests;
