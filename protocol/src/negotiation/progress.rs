//! The progress of a negotiation, for tables and people.

use evacuation_api::{
    Answer, BlockedReason, ConditionType, EvacuatedReason, Evacuation, EvacuationStatus, FailedReason,
    ResponderState, ResponderStatus,
};

use crate::{
    policy::rests,
    status::{Phase, phase},
};

/// Returns the word for the STATE column: Pending, Scheduled, Asking, Delayed, Refused, Accepted, Evicting,
/// Blocked, Terminating, Evacuated, DeletedDespiteAnswer, Canceled, Rehearsed or Failed. Scheduled means that
/// every requester waits for a window.
pub fn state_word(evacuation: &Evacuation) -> &'static str {
    if deleted_despite(evacuation).is_some() {
        return "DeletedDespiteAnswer";
    }
    let phase = phase(evacuation);
    match evacuation.status.as_ref().and_then(EvacuationStatus::reason) {
        Some(FailedReason::Canceled) => return "Canceled",
        Some(FailedReason::Rehearsed) => return "Rehearsed",
        _ => {}
    }
    let Some(status) = evacuation.status.as_ref().filter(|_| !phase.is_final()) else {
        return phase.as_str();
    };
    let blocked = status.is_true(ConditionType::Blocked);
    let terminating = status.reason() == Some(BlockedReason::Terminating);
    if terminating || status.eviction.as_ref().is_some_and(|e| e.accepted) {
        return "Terminating";
    }
    let policy = status.policy.as_ref();
    if policy.is_some_and(|policy| rests(&evacuation.spec.requesters, status, policy)) {
        return "Scheduled";
    }
    match phase {
        Phase::Asking => match active_answer(evacuation) {
            Some(Answer::Accept) => "Accepted",
            Some(Answer::Delay) => "Delayed",
            Some(Answer::Refuse) => "Refused",
            None => phase.as_str(),
        },
        Phase::Evicting if blocked => "Blocked",
        _ => phase.as_str(),
    }
}

/// Returns the responder that had refused, or was being asked, when the pod went without the controller:
/// somebody deleted it, or its node. None in a rehearsal, which protects no pod.
pub fn deleted_despite(evacuation: &Evacuation) -> Option<&ResponderStatus> {
    let status = evacuation.status.as_ref().filter(|_| !evacuation.spec.rehearsal)?;
    let by_other =
        status.is_true(ConditionType::Evacuated) && status.reason() == Some(EvacuatedReason::GoneByOther);
    let was_asked = |responder: &&ResponderStatus| {
        responder.state == ResponderState::Canceled
            && responder.active_time.is_some()
            && matches!(responder.answer, None | Some(Answer::Refuse))
    };
    status.responders.iter().flatten().filter(|_| by_other).find(was_asked)
}

/// Returns the Active responder, or else the last that was asked.
pub fn current_responder(evacuation: &Evacuation) -> Option<&ResponderStatus> {
    let responders = evacuation.status.as_ref()?.responders.as_deref()?;
    let active = responders.iter().find(|r| r.state == ResponderState::Active);
    active.or_else(|| responders.iter().filter(|r| r.active_time.is_some()).max_by_key(|r| r.active_time))
}

/// Returns the last answer of [`current_responder`], for the ANSWER column.
pub fn active_answer(evacuation: &Evacuation) -> Option<Answer> {
    current_responder(evacuation)?.answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, condition, evacuation, responder};
    use evacuation_api::{EvictionStatus, ResponderState::*};

    #[test]
    fn the_word_says_what_is_waited_for() {
        let asked = |state, answer| {
            let mut e = evacuation();
            let mut r = responder("self", state);
            r.active_time = Some(at(0).into());
            r.answer = answer;
            e.status.get_or_insert_default().responders = Some(vec![r]);
            e
        };
        let eviction = |accepted| Some(EvictionStatus { attempts: 1, accepted, ..EvictionStatus::default() });
        let with = |mut e: Evacuation, accepted, conditions: &[(&str, &str)]| {
            let status = e.status.get_or_insert_default();
            status.eviction = eviction(accepted);
            status.conditions = conditions.iter().map(|(t, r)| condition(t, "True", r)).collect();
            e
        };
        let table = [
            (evacuation(), Phase::Pending, "Pending"),
            (asked(Active, None), Phase::Asking, "Asking"),
            (asked(Active, Some(Answer::Delay)), Phase::Asking, "Delayed"),
            (asked(Active, Some(Answer::Refuse)), Phase::Asking, "Refused"),
            (asked(Active, Some(Answer::Accept)), Phase::Asking, "Accepted"),
            (asked(Completed, Some(Answer::Accept)), Phase::Evicting, "Evicting"),
            (asked(Interrupted, None), Phase::Evicting, "Evicting"),
            (
                with(asked(Completed, None), false, &[("Blocked", "BudgetExhausted")]),
                Phase::Evicting,
                "Blocked",
            ),
            (with(asked(Completed, None), true, &[]), Phase::Evicting, "Terminating"),
            (with(asked(Active, None), false, &[("Blocked", "Terminating")]), Phase::Asking, "Terminating"),
            (with(asked(Completed, None), true, &[("Evacuated", "Evicted")]), Phase::Evacuated, "Evacuated"),
            (with(asked(Canceled, None), false, &[("Failed", "Canceled")]), Phase::Failed, "Canceled"),
            (with(asked(Canceled, None), false, &[("Failed", "Refused")]), Phase::Failed, "Failed"),
            (with(asked(Canceled, None), false, &[("Failed", "Rehearsed")]), Phase::Failed, "Rehearsed"),
            (
                with(asked(Canceled, Some(Answer::Refuse)), false, &[("Evacuated", "GoneByOther")]),
                Phase::Evacuated,
                "DeletedDespiteAnswer",
            ),
            (
                with(asked(Canceled, None), false, &[("Evacuated", "GoneByOther")]),
                Phase::Evacuated,
                "DeletedDespiteAnswer",
            ),
            // Whoever asked for time can move the pod itself, and delete it when it is done. Nothing in the
            // API tells such a deletion from that of somebody else.
            (
                with(asked(Canceled, Some(Answer::Delay)), false, &[("Evacuated", "GoneByOther")]),
                Phase::Evacuated,
                "Evacuated",
            ),
        ];
        for (e, expected_phase, word) in table {
            assert_eq!((phase(&e), state_word(&e)), (expected_phase, word), "{:?}", e.status);
        }
    }

    #[test]
    fn the_answer_shown_is_that_of_the_active_responder_or_of_the_last_that_was_asked() {
        let mut e = evacuation();
        assert_eq!(active_answer(&e), None);
        let mut first = responder("a.b/first", Completed);
        first.active_time = Some(at(0).into());
        first.answer = Some(Answer::Accept);
        let mut second = responder("self", Active);
        second.active_time = Some(at(1).into());
        let status = e.status.get_or_insert_default();
        status.responders = Some(vec![first, second, responder("a.b/third", Inactive)]);
        assert_eq!(current_responder(&e).map(|r| r.name.as_str()), Some("self"));
        assert_eq!(active_answer(&e), None);
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        responders[1].state = Completed;
        responders[1].answer = Some(Answer::Refuse);
        assert_eq!(active_answer(&e), Some(Answer::Refuse));
    }
}
