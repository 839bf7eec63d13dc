//! Answers of responders: rule 4, as far as it is about state. The server proves the responder's identity
//! before.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, Evacuation, EvacuationResponseSpec, EvacuationResponseStatus, EvacuationStatus, Policy,
    ResponderState, ResponderStatus, SELF_RESPONDER,
};

use super::{AnswerError, DelayBound, expiry::delays_end};
use crate::{
    policy::{forced, next_forcing, policy_at},
    status::finished_reason,
    time::{after, stamp},
};

/// Minimum number of seconds that a delay of an endpoint is granted, unless a bound leaves less: within it
/// the controller reminds the endpoint, and takes in another answer.
pub const MIN_ENDPOINT_DELAY_SECONDS: i64 = 10;

/// Takes an answer. Returns the status that follows, and the reply to the responder.
///
/// # Guarantees
///
/// Only the Active responder's answer is taken. An Accept binds: a Delay or Refuse after it is an error. The
/// same Accept again is not an error, even when the controller has asked the next responder. A Delay is
/// granted up to the next Evict or Delete deadline, and up to the maximum total delay after `activeTime`, or
/// after `askedTime` of an endpoint, in whole seconds. One of an endpoint lasts at least
/// [`MIN_ENDPOINT_DELAY_SECONDS`] where these allow it. A renewal replaces the rest of the old delay. Times
/// are `now`, the server's.
pub fn answer(
    evacuation: &Evacuation,
    response: &EvacuationResponseSpec,
    now: DateTime<Utc>,
) -> Result<(EvacuationStatus, EvacuationResponseStatus), AnswerError> {
    let name = response.responder.as_deref().unwrap_or(SELF_RESPONDER);
    check_identity(evacuation, response)?;
    let mut status = evacuation.status.clone().unwrap_or_default();
    let policy = policy_at(&evacuation.spec.requesters, &status, now);
    let finished = finished_reason(&status).map(str::to_owned);
    let responders = status.responders.as_mut();
    if responders.is_none() && finished.is_none() {
        return Err(AnswerError::NotStarted { responder: name.to_owned() });
    }
    let responder = responders
        .into_iter()
        .flatten()
        .find(|r| r.name == name)
        .ok_or_else(|| AnswerError::NoSuchResponder { responder: name.to_owned() })?;

    let reply = if response.acknowledge_cancellation {
        acknowledge(responder)?;
        EvacuationResponseStatus::default()
    } else if let Some(reason) = finished {
        return Err(AnswerError::Finished { reason });
    } else {
        take(responder, &policy, response, now)?
    };
    Ok((status, reply))
}

fn check_identity(evacuation: &Evacuation, response: &EvacuationResponseSpec) -> Result<(), AnswerError> {
    let differs = |given: &Option<String>, actual: &Option<String>| {
        let given = given.clone().filter(|given| Some(given) != actual.as_ref())?;
        Some((given, actual.clone().unwrap_or_default()))
    };
    if let Some((given, actual)) = differs(&response.evacuation_uid, &evacuation.metadata.uid) {
        return Err(AnswerError::WrongEvacuation { given, actual });
    }
    if let Some((given, actual)) = differs(&response.pod_uid, &evacuation.spec.target.pod.uid) {
        return Err(AnswerError::WrongPod { given, actual });
    }
    Ok(())
}

fn acknowledge(responder: &mut ResponderStatus) -> Result<(), AnswerError> {
    if responder.state != ResponderState::Canceled {
        return Err(AnswerError::NotCanceled { responder: responder.name.clone(), state: responder.state });
    }
    responder.cancellation_acknowledged = true;
    Ok(())
}

fn take(
    responder: &mut ResponderStatus,
    policy: &Policy,
    response: &EvacuationResponseSpec,
    now: DateTime<Utc>,
) -> Result<EvacuationResponseStatus, AnswerError> {
    let name = || responder.name.clone();
    let given = response.answer.ok_or_else(|| AnswerError::Incomplete { responder: name() })?;
    let accepted = responder.answer == Some(Answer::Accept);
    match responder.state {
        // A reply may have been lost: the app repeats the answer that was recorded.
        ResponderState::Active | ResponderState::Completed if accepted && given == Answer::Accept => {
            return Ok(EvacuationResponseStatus::default());
        }
        ResponderState::Active if accepted => return Err(AnswerError::AlreadyAccepted { responder: name() }),
        ResponderState::Active => {}
        state => {
            return Err(AnswerError::NotActive { responder: name(), state });
        }
    }

    let reply = match given {
        Answer::Delay => grant(responder, policy, response, now)?,
        Answer::Accept | Answer::Refuse => EvacuationResponseStatus::default(),
    };
    responder.answer = Some(given);
    responder.answer_time = Some(stamp(now));
    if responder.is_pushed() {
        // What answers was asked.
        responder.asked_time.get_or_insert(stamp(now));
    }
    responder.delay_until = reply.delay_until;
    responder.retry_time = response
        .retry_after_seconds
        .filter(|_| given == Answer::Refuse)
        .map(|seconds| stamp(after(now, seconds)));
    responder.reason.clone_from(&response.reason);
    responder.message.clone_from(&response.message);
    responder.failure = None;
    Ok(reply)
}

/// Returns the granted part of a delay, in whole seconds, so that the reply and the status agree.
fn grant(
    responder: &ResponderStatus,
    policy: &Policy,
    response: &EvacuationResponseSpec,
    now: DateTime<Utc>,
) -> Result<EvacuationResponseStatus, AnswerError> {
    let asked = response
        .delay_seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| AnswerError::Incomplete { responder: responder.name.clone() })?;
    let (end, bound) = delay_bound(responder, policy, now);
    let left = end.signed_duration_since(now).num_seconds();
    if left < 1 {
        return Err(AnswerError::DelayExhausted { responder: responder.name.clone(), bound });
    }
    let shortest = if responder.is_pushed() { MIN_ENDPOINT_DELAY_SECONDS } else { 1 };
    let granted = asked.max(shortest).min(left);
    let message = match granted.cmp(&asked) {
        Ordering::Less => Some(format!("{asked} s were asked for; {bound} allows {granted} s")),
        Ordering::Equal => None,
        Ordering::Greater => {
            Some(format!("{asked} s were asked for; an endpoint gets {granted} s, to be reminded in time"))
        }
    };
    let delay_until = Some(stamp(after(now, granted)));
    Ok(EvacuationResponseStatus { granted_seconds: Some(granted), delay_until, message })
}

/// Returns the end of every delay, and the bound that sets it.
fn delay_bound(
    responder: &ResponderStatus,
    policy: &Policy,
    now: DateTime<Utc>,
) -> (DateTime<Utc>, DelayBound) {
    let seconds = responder.max_delay_seconds;
    // An answer to the first question may arrive before its delivery is recorded.
    let is_recorded = !responder.is_pushed() || responder.asked_time.is_some();
    let end = delays_end(responder).filter(|_| is_recorded).unwrap_or_else(|| after(now, seconds));
    let total = (end, DelayBound::MaxDelay { seconds });
    match forced(policy).or_else(|| next_forcing(policy)) {
        Some(deadline) if deadline.time.0 < total.0 || deadline.reached => {
            // One that was reached leaves nothing, even when the clock has gone back since.
            let end = if deadline.reached { now } else { deadline.time.0 };
            (end, DelayBound::Deadline { requester: deadline.requester.clone() })
        }
        _ => total,
    }
}

#[cfg(test)]
mod tests;
