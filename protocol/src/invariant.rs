//! What holds for every Evacuation at every time: for tests and the model checker.

use evacuation_api::{Answer, ConditionType, Evacuation, EvacuationStatus, ResponderState};

use crate::{
    condition::{find, is_true},
    is_finished,
    phase::is_done,
};

/// The invariants that the Evacuation breaks, in words. Empty for whatever the functions of this crate made.
pub fn violations(evacuation: &Evacuation) -> Vec<String> {
    let default = EvacuationStatus::default();
    let status = evacuation.status.as_ref().unwrap_or(&default);
    let mut broken = Vec::new();
    let mut require = |holds: bool, what: &str| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    let finished = is_finished(status);
    let (evacuated, failed) = (
        is_true(status, ConditionType::Evacuated),
        is_true(status, ConditionType::Failed),
    );
    require(!(evacuated && failed), "Evacuated and Failed exclude each other");
    require(
        finished == (evacuated || failed),
        "Finished stands beside Evacuated or Failed",
    );
    require(
        finished == status.finish_time.is_some(),
        "finishTime is the time of Finished",
    );

    let all = status.responders.as_deref().unwrap_or_default();
    let count = |state| all.iter().filter(|r| r.state == state).count();
    require(
        count(ResponderState::Active) <= 1,
        "at most one responder is Active",
    );
    let undone = all.iter().position(|r| !is_done(r.state)).unwrap_or(all.len());
    let later_inactive = all
        .iter()
        .skip(undone + 1)
        .all(|r| r.state == ResponderState::Inactive);
    require(
        later_inactive,
        "nobody's turn comes before those of higher priority are done",
    );
    require(
        all.is_sorted_by(|a, b| a.priority >= b.priority),
        "the highest priority comes first",
    );
    require(
        finished || count(ResponderState::Canceled) == 0,
        "nobody is Canceled before the end",
    );
    require(
        !finished || undone == all.len(),
        "nobody has the say after the end",
    );
    for r in all {
        let asked = r.active_time.is_some();
        require(
            r.state != ResponderState::Active || asked,
            "an Active responder has its activeTime",
        );
        require(
            r.state != ResponderState::Inactive || !asked,
            "an Inactive responder was not asked",
        );
        require(r.answer.is_none() || asked, "only who was asked has answered");
        require(
            r.answer.is_some() == r.answer_time.is_some(),
            "an answer has its time",
        );
        require(
            (r.answer == Some(Answer::Delay)) == r.delay_until.is_some(),
            "a Delay has its end",
        );
        let binding = !(r.state == ResponderState::Interrupted && r.answer == Some(Answer::Accept));
        require(binding, "who accepted is not Interrupted");
        let answered = matches!(r.answer, Some(Answer::Accept | Answer::Refuse));
        require(
            r.state != ResponderState::Completed || answered,
            "a Completed responder accepted or refused",
        );
    }

    if let Some(eviction) = &status.eviction {
        let done = status.responders.is_some() && undone == all.len();
        require(
            !eviction.in_flight || (done && !finished),
            "an eviction is in flight only when every responder is done",
        );
        require(
            !(eviction.in_flight && eviction.accepted),
            "what is accepted is not in flight",
        );
        require(
            !eviction.accepted || eviction.attempts > 0,
            "what is accepted was attempted",
        );
        require(
            !(eviction.accepted && failed),
            "a pod that is on its way out was not left alone",
        );
        require(
            (eviction.attempts > 0) == eviction.last_attempt_time.is_some(),
            "an attempt has its time",
        );
    }
    let blocked = find(&status.conditions, ConditionType::Blocked).is_some_and(|c| c.status == "True");
    require(!(finished && blocked), "nothing is Blocked after the end");
    broken
}
