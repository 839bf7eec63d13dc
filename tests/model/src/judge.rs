//! Judging every change of an Evacuation, and every eviction, by what happened.

use evacuation_api::{ConditionType, Evacuation, FailedReason, ResponderState, ResponderStatus};
use evacuation_protocol::{
    Actor, PHASE_TRANSITIONS, Phase, finished_reason, is_finished, phase, transition_allowed,
};

use crate::{
    Broken, Law, Negotiation,
    history::{History, Said, Sleep},
    invariant::violations,
    state::{Eviction, Pod, State, Version},
};

impl Negotiation {
    /// Stores what an Evacuation becomes. Every change comes through here and is judged.
    pub(crate) fn store(&self, state: &mut State, object: usize, next: &Version, by: Actor) {
        let (now, pod) = (state.now, state.pod);
        let Some(slot) = state.objects.get_mut(object) else {
            return;
        };
        let Some(before) = slot.stored.replace(next.clone()) else {
            return;
        };
        let broken = &mut state.broken;
        broken.require(violations(next).is_empty(), Law::Invariants);
        if by != Actor::Responder {
            slot.history.observe(&next.spec, self.config.users.len(), now);
        }
        judge_phase(&before, next, broken);
        self.judge_responders(&before, next, by, &mut slot.history, now, broken);
        judge_eviction_record(&before, next, slot.history.sleep != Sleep::Awake, broken);
        if !is_finished(&before.status()) && is_finished(&next.status()) {
            self.judge_end(next, by, &mut slot.history, pod, broken);
        }
    }

    /// Judges the responders that the server fixed in a new Evacuation.
    pub(crate) fn judge_creation(
        &self,
        created: &Version,
        history: &mut History,
        now: i64,
        broken: &mut Broken,
    ) {
        broken.require(violations(created).is_empty(), Law::Invariants);
        let mut before = Evacuation::clone(created);
        if let Some(status) = &mut before.status {
            status.responders = None;
        }
        self.judge_responders(&before, created, Actor::Server, history, now, broken);
    }

    fn judge_responders(
        &self,
        before: &Evacuation,
        next: &Evacuation,
        by: Actor,
        history: &mut History,
        now: i64,
        broken: &mut Broken,
    ) {
        let ended = next.status.as_ref().is_some_and(is_finished);
        let (was, is) = (responders(before), responders(next));
        let active = is.iter().filter(|r| r.state == ResponderState::Active).count();
        broken.require(active <= 1, Law::OneResponder);
        broken.require(was.is_empty() || was.len() == is.len(), Law::Forward);
        for (i, responder) in is.iter().enumerate() {
            let (from, to) = (was.get(i).map_or(ResponderState::Inactive, |r| r.state), responder.state);
            let Some(heard) = history.responders.get(i).cloned() else {
                broken.note(Law::Forward);
                continue;
            };
            let by_end = ended && to == ResponderState::Canceled;
            let actor = if by_end { Actor::Server } else { by };
            broken.require(from == to || transition_allowed(from, to, actor), Law::Forward);
            if from == to {
                continue;
            }
            broken.require(by == Actor::Responder || by_end || history.sleep == Sleep::Awake, Law::Awake);
            let mut heard = heard;
            match to {
                ResponderState::Active => heard.asked = Some(now),
                ResponderState::Completed | ResponderState::Interrupted => {
                    let Some(registered) = self.config.responders.get(i) else { continue };
                    heard.excused = history.may_pass(&heard, *registered, now);
                    broken.require(
                        heard.excused,
                        match heard.said {
                            Some(Said::Refused) => Law::Refusal,
                            _ if registered.endpoint => Law::Told,
                            _ => Law::Reason,
                        },
                    );
                }
                ResponderState::Inactive | ResponderState::Canceled => {}
            }
            if let Some(place) = history.responders.get_mut(i) {
                *place = heard;
            }
        }
    }

    fn judge_end(&self, next: &Version, by: Actor, history: &mut History, pod: Pod, broken: &mut Broken) {
        let status = next.status();
        let failed =
            status.conditions.iter().any(|c| c.type_ == ConditionType::Failed.as_str() && c.status == "True");
        if !failed {
            broken.require(pod == Pod::Gone, Law::End);
            return;
        }
        history.failed = true;
        let refused = || history.responders.iter().any(|r| r.said == Some(Said::Refused));
        let give_up = evacuation_api::RefusalPolicy::GiveUp;
        let holds = match finished_reason(&status) {
            Some(reason) if reason == FailedReason::Refused.as_str() => {
                refused() && history.on_refusal == give_up
            }
            Some(reason) if reason == FailedReason::DeadlineGaveUp.as_str() => {
                history.all_gave_up(&next.spec, self.config.users.len())
            }
            Some(reason) if reason == FailedReason::Canceled.as_str() => {
                by == Actor::Server && history.withdrawn
            }
            _ => false,
        };
        broken.require(holds, Law::End);
    }
}

fn responders(evacuation: &Evacuation) -> &[ResponderStatus] {
    let status = evacuation.status.as_ref();
    status.and_then(|s| s.responders.as_deref()).unwrap_or_default()
}

fn judge_phase(before: &Version, next: &Version, broken: &mut Broken) {
    let (from, to) = (phase(before), phase(next));
    let known = PHASE_TRANSITIONS.iter().any(|t| (t.from, t.to) == (from, to));
    broken.require(from == to || known, Law::Forward);
    let settled = |v: &Version| {
        let mut status = v.status();
        status.observed_generation = None;
        for responder in status.responders.iter_mut().flatten() {
            responder.cancellation_acknowledged = false;
        }
        (v.spec.clone(), status)
    };
    if matches!(from, Phase::Evacuated | Phase::Failed) {
        broken.require(settled(before) == settled(next), Law::Forward);
    }
}

fn judge_eviction_record(before: &Version, next: &Version, asleep: bool, broken: &mut Broken) {
    broken.require(!asleep || next.attempts() <= before.attempts(), Law::Awake);
    let (was, is) = (before.status().eviction, next.status().eviction);
    let (Some(was), is) = (was, is.unwrap_or_default()) else {
        return;
    };
    broken.require(was.attempts <= is.attempts && (is.accepted || !was.accepted), Law::Forward);
}

/// Judges an eviction that is posted, or arrives, now.
pub(crate) fn judge_eviction(state: &mut State, eviction: &Eviction) {
    let Some(history) = state.objects.get(eviction.object).map(|o| &o.history) else {
        return;
    };
    let broken = &mut state.broken;
    if history.withdrawn {
        broken.note(Law::Withdrawal);
    } else if history.failed {
        broken.note(Law::End);
    }
    if history.sleep == Sleep::ByEdit {
        broken.note(Law::Awake);
    }
    for heard in history.responders.iter().filter(|heard| !heard.excused) {
        broken.note(if heard.said == Some(Said::Refused) { Law::Refusal } else { Law::Agreed });
    }
    broken.require(!eviction.deletes || history.may_delete(), Law::Deletion);
}
