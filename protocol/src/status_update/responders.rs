//! The responders in a write of the controller.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, MAX_MESSAGE_LENGTH, Policy, RefusalPolicy, ResponderState, ResponderStatus, SELF_RESPONDER,
    Timestamp,
};

use super::StatusError;
use crate::{
    policy::{forced, next_forcing},
    responders::{NODE_UNREACHABLE, expiry_time},
    status::{Actor, transition_allowed},
    time::stamp,
};

/// The controller wrote another list of responders than the stored one.
const FIXED: StatusError = StatusError::Responders { why: "the list is fixed at creation" };

/// The stored state that the responders in a write are checked against.
pub(super) struct Responders<'a> {
    /// Stored responders; `None` in an object of a server that did not fix them at creation.
    pub(super) was: Option<&'a [ResponderStatus]>,
    pub(super) policy: &'a Policy,
    /// True while every live entry sleeps: no responder is asked or passed over.
    pub(super) asleep: bool,
    /// True when the write ends the Evacuation: the server then sets `Canceled`.
    pub(super) ending: bool,
    /// True for a rehearsal: each answer completes its responder.
    pub(super) rehearsal: bool,
    pub(super) now: DateTime<Utc>,
}

impl Responders<'_> {
    /// Returns the responders that result.
    pub(super) fn check(
        &self,
        proposed: Option<Vec<ResponderStatus>>,
        errors: &mut Vec<StatusError>,
    ) -> Option<Vec<ResponderStatus>> {
        let Some(before) = self.was else {
            if proposed.is_some() {
                errors.push(FIXED);
            }
            return None;
        };
        let before = before.to_vec();
        let proposed = proposed.unwrap_or_default();
        if before.len() != proposed.len()
            || before.iter().zip(&proposed).any(|(a, b)| !same_registration(a, b))
        {
            errors.push(FIXED);
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
            return self.delivery(old, new);
        }
        let allowed =
            if self.asleep { Err(StatusError::asleep(self.policy)) } else { self.allowed(&old, &new) };
        if let Err(error) = allowed {
            errors.push(error);
            return old;
        }
        match new.state {
            ResponderState::Active => {
                ResponderStatus { active_time: Some(stamp(self.now)), state: new.state, ..old }
            }
            ResponderState::Interrupted => {
                let reason =
                    if asked_while_unreachable(&old, &new) { new.reason } else { old.reason.clone() };
                ResponderStatus { message: new.message, failure: None, state: new.state, reason, ..old }
            }
            _ => ResponderStatus { state: new.state, ..old },
        }
    }

    /// Takes the controller's report about the questions to a pushed responder: that the first one was
    /// delivered or could not be, and what was wrong with the last reply. The words of one that has answered
    /// stay.
    fn delivery(&self, old: ResponderStatus, new: ResponderStatus) -> ResponderStatus {
        let waits = old.state == ResponderState::Active && new.state == old.state;
        if !waits || !old.is_pushed() || self.asleep || old.answer == Some(Answer::Accept) {
            return old;
        }
        // The same rule as for the words of an app: they are shown in terminals.
        let is_plain =
            |message: &String| message.len() <= MAX_MESSAGE_LENGTH && !message.chars().any(char::is_control);
        if old.answer.is_some() {
            let failure = new.failure.filter(is_plain).or(old.failure);
            return ResponderStatus { failure, ..old };
        }
        let now = |told: Option<Timestamp>| told.map(|_| stamp(self.now));
        let asked_time = old.asked_time.or(now(new.asked_time));
        let unreachable_time =
            old.unreachable_time.or(now(new.unreachable_time).filter(|_| asked_time.is_none()));
        let told = old.message.clone().filter(|_| asked_time == old.asked_time);
        let message = new.message.filter(is_plain).or(told);
        ResponderStatus { asked_time, unreachable_time, message, ..old }
    }

    fn allowed(&self, old: &ResponderStatus, new: &ResponderStatus) -> Result<(), StatusError> {
        use ResponderState::{Active, Completed, Inactive, Interrupted};
        let to = new.state;
        let refuse =
            |why| Err(StatusError::Transition { responder: old.name.clone(), from: old.state, to, why });
        if !transition_allowed(old.state, to, Actor::Controller) {
            return refuse("the transition table does not have it");
        }
        match (old.state, to) {
            (Active, Completed) => match old.answer {
                Some(Answer::Accept) => Ok(()),
                Some(_) if self.rehearsal => Ok(()),
                Some(Answer::Refuse) if self.policy.on_refusal == RefusalPolicy::Override => Ok(()),
                Some(Answer::Refuse) => refuse("it refused, and the policy is not Override"),
                Some(Answer::Delay) | None => refuse("it has not accepted"),
            },
            (Inactive | Active, Interrupted) if old.answer == Some(Answer::Accept) => {
                refuse("it accepted, so it becomes Completed")
            }
            (Inactive | Active, Interrupted) if forced(self.policy).is_some() => Ok(()),
            // Only the controller sees that `self` cannot be asked at all.
            (Inactive, Interrupted) if old.name == SELF_RESPONDER => Ok(()),
            (Inactive, Interrupted) => match next_forcing(self.policy) {
                Some(deadline) => self.not_before(old, deadline.time.0),
                None => refuse("it was not asked"),
            },
            (Active, Interrupted) if asked_while_unreachable(old, new) => Ok(()),
            (Active, Interrupted) => match expiry_time(old) {
                Some(expiry) => self.not_before(old, expiry),
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

/// Returns true when the controller claims that `self` became Active while the pod's node was unreachable.
/// Only the controller sees nodes. An app that has answered is reachable.
fn asked_while_unreachable(old: &ResponderStatus, new: &ResponderStatus) -> bool {
    old.name == SELF_RESPONDER
        && old.state == ResponderState::Active
        && old.answer.is_none()
        && new.reason.as_deref() == Some(NODE_UNREACHABLE)
}

fn same_registration(a: &ResponderStatus, b: &ResponderStatus) -> bool {
    fn registration(r: &ResponderStatus) -> impl PartialEq {
        (
            &r.name,
            r.priority,
            r.timeout_seconds,
            r.max_delay_seconds,
            r.serves_until_termination,
            &r.http,
            &r.service,
        )
    }
    registration(a) == registration(b)
}

/// Checks that no responder has its turn before those of higher priority are done.
fn check_order(responders: &[ResponderStatus], errors: &mut Vec<StatusError>) {
    let first_undone = responders.iter().position(|r| !r.state.is_done());
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
