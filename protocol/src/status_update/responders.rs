//! The responders in a write of the controller.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, MAX_RESPONDERS, Policy, RefusalPolicy, ResponderState, ResponderStatus, SELF_RESPONDER,
};

use crate::{
    Actor, StatusError,
    lapse::lapse_time,
    phase::is_done,
    policy::{forced, next_forcing},
    time::stamp,
    transition_allowed,
    window::asleep,
};

/// What the responders in a write are checked against.
pub(super) struct Responders<'a> {
    /// Those that are stored; `None` before the start.
    pub(super) was: Option<&'a [ResponderStatus]>,
    pub(super) policy: &'a Policy,
    /// Whether every live entry sleeps: nobody is asked or passed over.
    pub(super) asleep: bool,
    /// Whether the write ends the Evacuation: then `Canceled` is set afterwards, by the server.
    pub(super) ending: bool,
    pub(super) now: DateTime<Utc>,
}

impl Responders<'_> {
    /// The responders that result.
    pub(super) fn check(
        &self,
        proposed: Option<Vec<ResponderStatus>>,
        errors: &mut Vec<StatusError>,
    ) -> Option<Vec<ResponderStatus>> {
        let before = match (self.was, &proposed) {
            (None, None) => return None,
            (None, Some(_)) if self.asleep && !self.ending => {
                errors.push(asleep(self.policy));
                return None;
            }
            (None, Some(proposed)) => {
                check_start(proposed, errors);
                proposed.iter().map(unasked).collect()
            }
            (Some(was), _) => was.to_vec(),
        };
        let proposed = proposed.unwrap_or_default();
        if before.len() != proposed.len()
            || before.iter().zip(&proposed).any(|(a, b)| !same_registration(a, b))
        {
            errors.push(StatusError::Responders { why: "the list is fixed once it is written" });
            return Some(before);
        }
        let after: Vec<_> =
            before.into_iter().zip(proposed).map(|(old, new)| self.step(old, new, errors)).collect();
        check_order(&after, errors);
        Some(after)
    }

    fn step(
        &self,
        old: ResponderStatus,
        new: ResponderStatus,
        errors: &mut Vec<StatusError>,
    ) -> ResponderStatus {
        if new.state == old.state || (new.state == ResponderState::Canceled && self.ending) {
            return if self.is_asked(&old, &new) {
                ResponderStatus { asked_time: Some(stamp(self.now)), ..old }
            } else {
                old
            };
        }
        let allowed = if self.asleep { Err(asleep(self.policy)) } else { self.allowed(&old, new.state) };
        if let Err(error) = allowed {
            errors.push(error);
            return old;
        }
        match new.state {
            ResponderState::Active => {
                ResponderStatus { active_time: Some(stamp(self.now)), state: new.state, ..old }
            }
            ResponderState::Interrupted => ResponderStatus { message: new.message, state: new.state, ..old },
            _ => ResponderStatus { state: new.state, ..old },
        }
    }

    /// Whether the controller reports that the first question of a pushed responder was delivered.
    fn is_asked(&self, old: &ResponderStatus, new: &ResponderStatus) -> bool {
        let reported = old.asked_time.is_none() && new.asked_time.is_some();
        let waits = old.state == ResponderState::Active && new.state == old.state && old.answer.is_none();
        reported && waits && old.is_pushed() && !self.asleep
    }

    fn allowed(&self, old: &ResponderStatus, to: ResponderState) -> Result<(), StatusError> {
        use ResponderState::{Active, Completed, Inactive, Interrupted};
        let refuse =
            |why| Err(StatusError::Transition { responder: old.name.clone(), from: old.state, to, why });
        if !transition_allowed(old.state, to, Actor::Controller) {
            return refuse("the transition table does not have it");
        }
        match (old.state, to) {
            (Active, Completed) => match old.answer {
                Some(Answer::Accept) => Ok(()),
                Some(Answer::Refuse) if self.policy.on_refusal == RefusalPolicy::Override => Ok(()),
                Some(Answer::Refuse) => refuse("it refused, and the policy is not Override"),
                Some(Answer::Delay) | None => refuse("it has not accepted"),
            },
            (Inactive | Active, Interrupted) if old.answer == Some(Answer::Accept) => {
                refuse("it accepted, so it becomes Completed")
            }
            (Inactive | Active, Interrupted) if forced(self.policy).is_some() => Ok(()),
            // Whether it can be asked at all only the controller sees.
            (Inactive, Interrupted) if old.name == SELF_RESPONDER => Ok(()),
            (Inactive, Interrupted) => match next_forcing(self.policy) {
                Some(deadline) => self.not_before(old, deadline.time.0),
                None => refuse("it was not asked"),
            },
            (Active, Interrupted) => match lapse_time(old) {
                Some(lapse) => self.not_before(old, lapse),
                None => match next_forcing(self.policy) {
                    Some(deadline) => self.not_before(old, deadline.time.0),
                    None if old.answer.is_none() => refuse("its first question was not delivered yet"),
                    None => refuse("it refused, and a refusal does not lapse"),
                },
            },
            _ => Ok(()),
        }
    }

    fn not_before(&self, old: &ResponderStatus, until: DateTime<Utc>) -> Result<(), StatusError> {
        if until <= self.now {
            return Ok(());
        }
        let until = next_forcing(self.policy).map_or(until, |deadline| deadline.time.0.min(until));
        Err(StatusError::NotYet { what: format!("responder {} is interrupted", old.name), until })
    }
}

/// A responder as it is registered, without anything that others write.
fn unasked(proposed: &ResponderStatus) -> ResponderStatus {
    ResponderStatus {
        state: ResponderState::Inactive,
        active_time: None,
        asked_time: None,
        answer: None,
        answer_time: None,
        delay_until: None,
        retry_time: None,
        reason: None,
        message: None,
        cancellation_acknowledged: false,
        ..proposed.clone()
    }
}

fn same_registration(a: &ResponderStatus, b: &ResponderStatus) -> bool {
    (&a.name, a.priority, a.timeout_seconds, a.max_delay_seconds, &a.http, &a.service)
        == (&b.name, b.priority, b.timeout_seconds, b.max_delay_seconds, &b.http, &b.service)
}

fn check_start(responders: &[ResponderStatus], errors: &mut Vec<StatusError>) {
    let mut wrong = |why| errors.push(StatusError::Responders { why });
    let mut names = HashSet::new();
    if !responders.iter().all(|r| names.insert(r.name.as_str())) {
        wrong("a name occurs twice");
    }
    if responders.len() > MAX_RESPONDERS {
        wrong("there are too many");
    }
    if !responders.is_sorted_by(|a, b| a.priority >= b.priority) {
        wrong("the highest priority comes first");
    }
    if responders.iter().any(|r| r.timeout_seconds < 1 || r.max_delay_seconds < 0) {
        wrong("a timeout is at least 1 s and a longest delay at least 0 s");
    }
}

/// Nobody's turn comes before those of higher priority are done.
fn check_order(responders: &[ResponderStatus], errors: &mut Vec<StatusError>) {
    let first_undone = responders.iter().position(|r| !is_done(r.state));
    let later = responders.iter().skip(first_undone.map_or(responders.len(), |i| i + 1));
    for responder in later.filter(|r| r.state != ResponderState::Inactive) {
        errors.push(StatusError::Transition {
            responder: responder.name.clone(),
            from: ResponderState::Inactive,
            to: responder.state,
            why: "one of higher priority is not done",
        });
    }
}
