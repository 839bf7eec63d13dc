//! Ending an Evacuation early: cancellation and deletion.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus, FailedReason, Requester};

use crate::{EditError, ending::fail, fence::check_fence, is_finished, must_learn, ownership::check_owner};

/// The status of an Evacuation that is canceled for that reason, in words. One that has ended stays as it is.
///
/// The caller must have passed the fence: [`check_requester_edit`](crate::check_requester_edit) or
/// [`delete`].
#[must_use]
pub fn cancel(status: &EvacuationStatus, why: &str, now: DateTime<Utc>) -> EvacuationStatus {
    let mut status = status.clone();
    if !is_finished(&status) {
        fail(&mut status, FailedReason::Canceled, why, now);
    }
    status
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The status to delete the Evacuation with: canceled, if it was active.
    pub status: EvacuationStatus,
    /// True when the finalizer [`CANCELLATION_FINALIZER`](evacuation_api::CANCELLATION_FINALIZER) must hold
    /// the object until the responders that were asked have learnt of the cancellation.
    pub await_learning: bool,
}

/// Rules 1 and 3 and the fence, for a deletion by `user`.
///
/// # Errors
///
/// [`EditError::NotYours`] when an active one has entries of others, unless `may_override` or the namespace
/// is terminating; [`EditError::EvictionInFlight`] and [`EditError::EvictionAccepted`], unless the namespace
/// is terminating, whose pods go anyway.
pub fn delete(
    evacuation: &Evacuation,
    user: &str,
    may_override: bool,
    namespace_terminating: bool,
    now: DateTime<Utc>,
) -> Result<Deletion, EditError> {
    let default = EvacuationStatus::default();
    let status = evacuation.status.as_ref().unwrap_or(&default);
    let entries = &evacuation.spec.requesters;
    if !is_finished(status) && !namespace_terminating {
        if !may_override {
            check_owner(entries.iter().map(Requester::key), user)?;
        }
        check_fence(status, entries.first().map(Requester::key))?;
    }
    let mut status = cancel(status, "the evacuation was deleted", now);
    // The first deletion counts the generation up, and the controller writes no more.
    let deleted = i64::from(evacuation.metadata.deletion_timestamp.is_none());
    status.observed_generation = evacuation.metadata.generation.map(|generation| generation + deleted);
    let await_learning = !namespace_terminating && must_learn(&status, now);
    Ok(Deletion { status, await_learning })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        asked_responders,
        testing::{asking, asking_for, at, requester, requester_of, responder},
    };
    use evacuation_api::{Answer, EvictionStatus, ResponderState::*};

    #[test]
    fn everyone_who_has_not_been_passed_over_is_canceled() {
        let mut status = asking().status.unwrap();
        let before = [Interrupted, Completed, Active, Inactive];
        status.responders = Some(before.map(|s| responder(&format!("a.b/{s:?}"), s)).to_vec());
        let status = cancel(&status, "the last requester left", at(5));
        let after: Vec<_> = status.responders.iter().flatten().map(|r| r.state).collect();
        assert_eq!(after, [Interrupted, Canceled, Canceled, Canceled]);
        assert_eq!(status.finish_time, Some(at(5).into()));
        let conditions: Vec<_> = status
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str()))
            .collect();
        assert_eq!(conditions, [("Failed", "True", "Canceled"), ("Finished", "True", "Canceled")]);
        assert_eq!(status.conditions[0].message, "the last requester left");
    }

    #[test]
    fn what_has_ended_cannot_be_canceled_again() {
        let once = cancel(&asking().status.unwrap(), "one", at(5));
        assert_eq!(cancel(&once, "two", at(6)), once);
    }

    #[test]
    fn those_who_were_asked_must_learn_and_those_who_were_not_need_not() {
        let mut status = asking().status.unwrap();
        let mut accepted = responder("a.b/accepted", Completed);
        accepted.active_time = Some(at(0).into());
        accepted.answer = Some(Answer::Accept);
        let mut slow = responder("a.b/slow", Interrupted);
        slow.active_time = Some(at(0).into());
        status.responders.as_mut().unwrap().splice(0..0, [accepted, slow]);
        status.responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
        let mut status = cancel(&status, "x", at(5));
        let names: Vec<_> = asked_responders(&status).iter().map(|r| r.name.clone()).collect();
        assert_eq!(names, ["a.b/accepted", "a.b/slow", "self"]);
        assert!(must_learn(&status, at(34)));
        assert!(!must_learn(&status, at(35)), "nobody is waited for longer than 30 s");
        for r in status.responders.iter_mut().flatten() {
            r.cancellation_acknowledged = r.active_time.is_some();
        }
        assert!(!must_learn(&status, at(6)));
    }

    fn foreign(mut evacuation: Evacuation) -> Evacuation {
        evacuation.spec.requesters.push(requester_of("bob", "a.b/other"));
        evacuation
    }

    #[test]
    fn deleting_one_with_entries_of_others_needs_override_except_in_a_terminating_namespace() {
        let e = foreign(asking());
        assert_eq!(
            delete(&e, "alice", false, false, at(1)),
            Err(EditError::NotYours { requester: "a.b/other".to_owned(), owner: "bob".to_owned() })
        );
        assert!(delete(&e, "alice", true, false, at(1)).unwrap().await_learning);
        assert!(!delete(&e, "alice", false, true, at(1)).unwrap().await_learning);
        assert!(delete(&asking(), "alice", false, false, at(1)).unwrap().await_learning);
    }

    #[test]
    fn one_that_has_ended_is_deleted_by_anyone_and_only_the_asked_are_waited_for() {
        let mut e = foreign(asking());
        e.status = Some(cancel(e.status.as_ref().unwrap(), "x", at(1)));
        let deletion = delete(&e, "carol", false, false, at(2)).unwrap();
        assert_eq!(deletion.status.conditions, e.status.as_ref().unwrap().conditions);
        assert_eq!(deletion.status.observed_generation, Some(2));
        assert!(deletion.await_learning);
        assert!(!delete(&e, "carol", false, false, at(31)).unwrap().await_learning);
    }

    #[test]
    fn nothing_is_deleted_while_an_eviction_is_in_flight_or_accepted_except_with_its_namespace() {
        for (in_flight, cause) in [(true, "EvictionInFlight"), (false, "EvictionAccepted")] {
            let mut e = asking_for(vec![requester("a.b/r")]);
            e.status.get_or_insert_default().eviction = Some(EvictionStatus {
                attempts: 1,
                in_flight,
                accepted: !in_flight,
                ..EvictionStatus::default()
            });
            assert_eq!(delete(&e, "alice", true, false, at(1)).unwrap_err().cause(), cause);
            assert!(delete(&e, "alice", false, true, at(1)).is_ok());
        }
    }
}
