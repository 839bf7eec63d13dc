//! Invariants of every Evacuation at every time, for tests and the model checker.

use evacuation_api::{Answer, ConditionType, Evacuation, EvacuationStatus, ResponderState, ResponderStatus};

use evacuation_protocol::is_finished;

/// Returns the invariants that the Evacuation breaks, in words. Empty for the results of this crate's
/// functions.
pub fn violations(evacuation: &Evacuation) -> Vec<String> {
    let default = EvacuationStatus::default();
    let status = evacuation.status.as_ref().unwrap_or(&default);
    let mut broken = Broken(Vec::new());
    broken.ends(status);
    broken.turns(status);
    for responder in status.responders.iter().flatten() {
        broken.answer(responder);
    }
    broken.eviction(status);
    broken.0
}

struct Broken(Vec<String>);

impl Broken {
    fn require(&mut self, holds: bool, what: &str) {
        if !holds {
            self.0.push(what.to_owned());
        }
    }

    fn ends(&mut self, status: &EvacuationStatus) {
        let finished = is_finished(status);
        let (evacuated, failed) =
            (status.is_true(ConditionType::Evacuated), status.is_true(ConditionType::Failed));
        self.require(!(evacuated && failed), "Evacuated and Failed exclude each other");
        self.require(finished == (evacuated || failed), "Finished stands beside Evacuated or Failed");
        self.require(finished == status.finish_time.is_some(), "finishTime is the time of Finished");
        self.require(
            !(finished && status.is_true(ConditionType::Blocked)),
            "nothing is Blocked after the end",
        );
    }

    fn turns(&mut self, status: &EvacuationStatus) {
        let finished = is_finished(status);
        let all = status.responders.as_deref().unwrap_or_default();
        let count = |state| all.iter().filter(|r| r.state == state).count();
        let undone = first_undone(status);
        let waiting = all.iter().skip(undone + 1).all(|r| r.state == ResponderState::Inactive);
        self.require(count(ResponderState::Active) <= 1, "at most one responder is Active");
        self.require(waiting, "nobody's turn comes before those of higher priority are done");
        self.require(all.is_sorted_by(|a, b| a.priority >= b.priority), "the highest priority comes first");
        self.require(finished || count(ResponderState::Canceled) == 0, "nobody is Canceled before the end");
        let failed = status.is_true(ConditionType::Failed);
        let learns = |r: &ResponderStatus| r.active_time.is_none() || r.state == ResponderState::Canceled;
        self.require(!failed || all.iter().all(learns), "whoever was asked learns that the pod stays");
        self.require(!finished || undone == all.len(), "nobody has the say after the end");
    }

    fn answer(&mut self, r: &ResponderStatus) {
        let asked = r.active_time.is_some();
        self.require(r.state != ResponderState::Active || asked, "an Active responder has its activeTime");
        self.require(r.state != ResponderState::Inactive || !asked, "an Inactive responder was not asked");
        self.require(r.answer.is_none() || asked, "only who was asked has answered");
        self.require(r.answer.is_some() == r.answer_time.is_some(), "an answer has its time");
        self.require((r.answer == Some(Answer::Delay)) == r.delay_until.is_some(), "a Delay has its end");
        let accepted = r.answer == Some(Answer::Accept);
        let interrupted = r.state == ResponderState::Interrupted;
        self.require(!(interrupted && accepted), "who accepted is not Interrupted");
        let answered = matches!(r.answer, Some(Answer::Accept | Answer::Refuse));
        self.require(
            r.state != ResponderState::Completed || answered,
            "a Completed responder accepted or refused",
        );
    }

    fn eviction(&mut self, status: &EvacuationStatus) {
        let Some(eviction) = &status.eviction else { return };
        let all = status.responders.as_deref();
        let ready = all.is_some_and(|all| first_undone(status) == all.len()) && !is_finished(status);
        let failed = status.is_true(ConditionType::Failed);
        self.require(
            !eviction.in_flight || ready,
            "an eviction is in flight only when every responder is done",
        );
        self.require(!(eviction.in_flight && eviction.accepted), "what is accepted is not in flight");
        self.require(!eviction.accepted || eviction.attempts > 0, "what is accepted was attempted");
        self.require(!(eviction.accepted && failed), "a pod that is on its way out was not left alone");
        self.require(
            !eviction.in_flight || eviction.last_attempt_result.is_none(),
            "what is in flight has no result",
        );
        let timed = eviction.last_attempt_time.is_some();
        self.require((eviction.attempts > 0) == timed, "an attempt has its time");
    }
}

fn first_undone(status: &EvacuationStatus) -> usize {
    let all = status.responders.as_deref().unwrap_or_default();
    all.iter().position(|r| !r.state.is_done()).unwrap_or(all.len())
}
