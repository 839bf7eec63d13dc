//! The expected time of the next step of an Evacuation, for people who wait.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationStatus, Requester, ResponderState, ScheduledDeadline,
};

use super::left_to_callers_until;
use crate::{
    policy::{next_change, rests},
    requesters::counted_deletion,
    responders::expiry_time,
    status::is_finished,
};

/// Returns the latest time at which an active Evacuation continues by itself: the Active responder's time
/// expires, a deadline acts, a deletion that counts passes its budgets, the time of callers that delete the
/// pod themselves is over, or a window opens while every requester sleeps. `None` when the Evacuation has
/// ended, and when only another answer, a budget or a requester can move it.
///
/// A deadline at which an entry gives up counts if it is the last one: while others ask, the Evacuation goes
/// on. That of a counted deletion does not count: retries move it.
pub fn continues_by(evacuation: &Evacuation) -> Option<DateTime<Utc>> {
    let status = evacuation.status.as_ref()?;
    if is_finished(status) {
        return None;
    }
    let policy = status.policy.as_ref();
    if let Some(policy) = policy.filter(|policy| rests(&evacuation.spec.requesters, status, policy)) {
        return next_change(policy);
    }
    let active = status.responders.iter().flatten().find(|r| r.state == ResponderState::Active);
    let deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
    // An Evict deadline only skips responders.
    let skips = status.responders.as_ref().is_none_or(|all| !all.iter().all(|r| r.state.is_done()));
    let acts = |action| skips || action != DeadlineAction::Evict;
    let passes_at = counted_deletion(evacuation).map(|deletion| deletion.passes_at);
    let deadlines = deadlines.filter(|d| passes_at.is_none() || !is_renewed(evacuation, d));
    let last = last_gives_up_at(evacuation, status);
    let ends = |d: &&ScheduledDeadline| d.action != DeadlineAction::GiveUp || last == Some(d.time.0);
    let deadline = deadlines.filter(ends).filter(|d| !d.reached && acts(d.action)).map(|d| d.time.0);
    let left_until = left_to_callers_until(evacuation);
    active.and_then(expiry_time).into_iter().chain(deadline).chain(passes_at).chain(left_until).min()
}

/// Returns the time at which the last entry gives up. `None` when one does not.
fn last_gives_up_at(evacuation: &Evacuation, status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let mut last = None;
    for entry in &evacuation.spec.requesters {
        let mut deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
        let own = deadlines.find(|d| d.key() == entry.key() && d.action == DeadlineAction::GiveUp)?;
        last = last.max(Some(own.time.0));
    }
    last
}

/// Returns true for the deadline at which the entry of a counted deletion gives up.
fn is_renewed(evacuation: &Evacuation, deadline: &ScheduledDeadline) -> bool {
    let counts = |entry: &Requester| entry.key() == deadline.key() && entry.budget_patience_seconds.is_some();
    deadline.action == DeadlineAction::GiveUp && evacuation.spec.requesters.iter().any(counts)
}

#[cfg(test)]
mod tests {
    use evacuation_api::Answer;

    use super::*;
    use crate::{
        cancel, derive_policy,
        testing::{asking, at, condition, evacuation, evacuation_for, requester},
    };

    fn with_deadline(mut e: Evacuation, seconds: i64, action: DeadlineAction) -> Evacuation {
        let entry =
            Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..requester("a.b/r") };
        e.status.get_or_insert_default().policy = Some(derive_policy(&[entry], None, at(0)));
        e
    }

    /// An Evacuation whose app refused. Its entries give up at these times, or never.
    fn given_up_at(times: &[Option<i64>]) -> Evacuation {
        let entry = |(number, seconds): (usize, &Option<i64>)| Requester {
            deadline: seconds.map(|seconds| at(seconds).into()),
            at_deadline: seconds.map(|_| DeadlineAction::GiveUp),
            ..requester(&format!("a.b/{number}"))
        };
        let mut e = answered(Answer::Refuse);
        e.spec.requesters = times.iter().enumerate().map(entry).collect();
        e.status.get_or_insert_default().policy = Some(derive_policy(&e.spec.requesters, None, at(0)));
        e
    }

    fn asked_by_nobody_yet() -> Evacuation {
        let mut e = asking();
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = ResponderState::Inactive;
        e
    }

    fn answered(answer: Answer) -> Evacuation {
        let mut e = asking();
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        responders[0].answer = Some(answer);
        responders[0].delay_until = (answer == Answer::Delay).then(|| at(90).into());
        e
    }

    /// An Evacuation for a deletion that counts. A budget holds it back since 5. Its entry lives until 20.
    fn counted(patience: Option<i64>) -> Evacuation {
        let entry = Requester {
            deadline: Some(at(20).into()),
            at_deadline: Some(DeadlineAction::GiveUp),
            budget_patience_seconds: patience,
            ..requester("a.b/r")
        };
        let mut e = evacuation_for(vec![entry]);
        let status = e.status.get_or_insert_default();
        status.conditions.push(condition("Blocked", "True", "BudgetExhausted"));
        status.eviction.get_or_insert_default().budget_blocked_time = Some(at(5).into());
        e
    }

    /// An Evacuation that is left until 15 to a caller whose entry lives until 90.
    fn left_to_its_caller() -> Evacuation {
        let entry = Requester {
            deadline: Some(at(90).into()),
            at_deadline: Some(DeadlineAction::GiveUp),
            caller_deletes_within_seconds: Some(15),
            ..requester("a.b/r")
        };
        let mut e = evacuation_for(vec![entry]);
        e.status.as_mut().unwrap().eviction.get_or_insert_default().next_attempt_time = Some(at(15).into());
        e
    }

    #[test]
    fn it_is_the_end_of_a_say_or_a_deadline_whichever_is_sooner() {
        let asked_by_nobody = evacuation();
        let mut canceled = asking();
        canceled.status = Some(cancel(canceled.status.as_ref().unwrap(), "x", at(1)));
        let evict = DeadlineAction::Evict;
        let table = [
            ("silent", asking(), Some(60)),
            ("delayed", answered(Answer::Delay), Some(90)),
            ("refused", answered(Answer::Refuse), None),
            ("a later deadline", with_deadline(asking(), 80, evict), Some(60)),
            ("a sooner deadline", with_deadline(asking(), 20, evict), Some(20)),
            ("refused with a deadline", with_deadline(answered(Answer::Refuse), 300, evict), Some(300)),
            ("not started", with_deadline(asked_by_nobody_yet(), 300, evict), Some(300)),
            ("nobody is left to be skipped", with_deadline(asked_by_nobody.clone(), 300, evict), None),
            ("it will be deleted", with_deadline(asked_by_nobody, 300, DeadlineAction::Delete), Some(300)),
            ("all give up", given_up_at(&[Some(200), Some(100)]), Some(200)),
            ("one gives up", given_up_at(&[Some(200), None]), None),
            ("a deletion counts", counted(Some(60)), Some(65)),
            ("no deletion counts", counted(None), Some(20)),
            ("left to its caller", left_to_its_caller(), Some(15)),
            ("ended", canceled, None),
        ];
        for (what, e, expected) in table {
            assert_eq!(continues_by(&e), expected.map(at), "{what}");
        }
    }
}
