//! The conditions in a write of the controller.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, BlockedReason, ConditionType, DeadlineAction, EvacuatedReason, Evacuation, EvacuationStatus,
    EvictionStatus, FailedReason, Policy, RefusalPolicy, RequesterKey, ResponderState, condition_time,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::StatusError;
use crate::{eviction::is_deletion, policy::all_expired, status::put};

/// The stored state that the conditions in a write are checked against.
pub(super) struct Conditions<'a> {
    pub(super) old: &'a Evacuation,
    pub(super) was: &'a EvacuationStatus,
    pub(super) policy: &'a Policy,
    /// True while every live entry sleeps: no refusal ends the Evacuation.
    pub(super) asleep: bool,
    /// The record of the eviction after the write.
    pub(super) eviction: Option<&'a EvictionStatus>,
    pub(super) now: DateTime<Utc>,
}

impl Conditions<'_> {
    /// Returns the conditions that result. None is ever removed, and Finished is the server's to set.
    pub(super) fn check(&self, proposed: Vec<Condition>, errors: &mut Vec<StatusError>) -> Vec<Condition> {
        let mut names = HashSet::new();
        let mut ends = 0;
        let mut after = self.was.conditions.clone();
        let claims_finished = proposed.iter().any(|c| is(c, ConditionType::Finished) && c.status == "True");
        for condition in proposed {
            if is(&condition, ConditionType::Finished) {
                continue;
            }
            ends += usize::from(!is(&condition, ConditionType::Blocked));
            let result = if names.insert(condition.type_.clone()) {
                self.allowed(&condition)
            } else {
                Err(wrong(&condition, "it occurs twice"))
            };
            match result {
                Ok(()) => {
                    put(
                        &mut after,
                        Condition { last_transition_time: condition_time(self.now), ..condition },
                    );
                }
                Err(error) => errors.push(error),
            }
        }
        let finished = ConditionType::Finished.as_str();
        if ends > 1 {
            let condition = finished.to_owned();
            errors.push(StatusError::Condition {
                condition,
                why: "an Evacuation ends Evacuated or Failed, not both",
            });
        }
        if ends == 0 && claims_finished {
            let condition = finished.to_owned();
            errors.push(StatusError::Condition { condition, why: "it stands beside Evacuated or Failed" });
        }
        after
    }

    fn allowed(&self, condition: &Condition) -> Result<(), StatusError> {
        if is(condition, ConditionType::Blocked) {
            let reason = BlockedReason::parse(&condition.reason);
            let right = (condition.status == "False") == (reason == Some(BlockedReason::NotBlocked));
            return if reason.is_some() && right {
                Ok(())
            } else {
                Err(wrong(condition, "the reason does not fit"))
            };
        }
        if condition.status != "True" {
            return Err(wrong(condition, "it is True or absent"));
        }
        if is(condition, ConditionType::Evacuated) {
            self.evacuated(condition)
        } else if is(condition, ConditionType::Failed) {
            self.failed(condition)
        } else {
            Err(wrong(condition, "the type is not known"))
        }
    }

    /// Checks the reason of the condition Evacuated. Only the controller sees that the pod is gone. The
    /// record shows whether the eviction removed it.
    fn evacuated(&self, condition: &Condition) -> Result<(), StatusError> {
        let tried = self.was.eviction.as_ref().filter(|e| e.in_flight || e.accepted);
        let deleted = tried.is_some_and(|e| is_deletion(self.policy, e));
        match EvacuatedReason::parse(&condition.reason) {
            Some(EvacuatedReason::GoneByOther | EvacuatedReason::TerminatedInPlace) => Ok(()),
            Some(EvacuatedReason::Evicted) if tried.is_some() && !deleted => Ok(()),
            Some(EvacuatedReason::Deleted) if deleted => Ok(()),
            Some(EvacuatedReason::Evicted | EvacuatedReason::Deleted) => {
                Err(wrong(condition, "the record has no such attempt"))
            }
            None => Err(wrong(condition, "the reason is not known")),
        }
    }

    fn failed(&self, condition: &Condition) -> Result<(), StatusError> {
        if self.eviction.is_some_and(|e| e.in_flight) {
            return Err(wrong(condition, "an eviction is in flight"));
        }
        if self.eviction.is_some_and(|e| e.accepted) {
            return Err(wrong(condition, "the pod is on its way out"));
        }
        match FailedReason::parse(&condition.reason) {
            Some(FailedReason::Refused) => {
                let refused = self
                    .was
                    .responders
                    .iter()
                    .flatten()
                    .any(|r| r.state == ResponderState::Active && r.answer == Some(Answer::Refuse));
                if refused && self.asleep {
                    Err(StatusError::asleep(self.policy))
                } else if refused && self.policy.on_refusal == RefusalPolicy::GiveUp {
                    Ok(())
                } else {
                    Err(wrong(condition, "no active responder refused, or the policy is not GiveUp"))
                }
            }
            // Only the controller sees the other pods.
            Some(FailedReason::PodGroupRefused) if self.asleep => Err(StatusError::asleep(self.policy)),
            Some(FailedReason::PodGroupRefused) if self.policy.on_refusal == RefusalPolicy::GiveUp => Ok(()),
            Some(FailedReason::PodGroupRefused) => Err(wrong(condition, "the policy is not GiveUp")),
            Some(FailedReason::Rehearsed) if !self.old.spec.rehearsal => {
                Err(wrong(condition, "it is no rehearsal"))
            }
            Some(FailedReason::Rehearsed) if self.asleep => Err(StatusError::asleep(self.policy)),
            Some(FailedReason::Rehearsed) => {
                let mut responders = self.was.responders.iter().flatten();
                if responders.all(|r| r.state.is_done()) {
                    Ok(())
                } else {
                    Err(wrong(condition, "a responder is not done"))
                }
            }
            Some(FailedReason::DeadlineGaveUp) => self.gave_up(condition),
            Some(FailedReason::Canceled) => Err(wrong(condition, "only the server cancels")),
            None => Err(wrong(condition, "the reason is not known")),
        }
    }

    fn gave_up(&self, condition: &Condition) -> Result<(), StatusError> {
        let requesters = &self.old.spec.requesters;
        if all_expired(requesters, self.policy) {
            return Ok(());
        }
        let last = |key: RequesterKey<'_>| {
            let mut rows = self.policy.deadlines.iter().filter(|d| d.key() == key);
            rows.find(|d| d.action == DeadlineAction::GiveUp).map(|d| d.time.0)
        };
        let times: Option<Vec<_>> = requesters.iter().map(|r| last(r.key())).collect();
        match times.and_then(|times| times.into_iter().max()) {
            Some(until) => Err(StatusError::NotYet { what: "the last requester gives up".to_owned(), until }),
            None => Err(wrong(condition, "a requester is left that does not give up")),
        }
    }
}

fn is(condition: &Condition, kind: ConditionType) -> bool {
    condition.type_ == kind.as_str()
}

fn wrong(condition: &Condition, why: &'static str) -> StatusError {
    StatusError::Condition { condition: condition.type_.clone(), why }
}
