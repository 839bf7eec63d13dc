//! Deletion of an Evacuation by a user.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus, Requester};

use super::{EditError, ownership::check_owner, withdrawal::check_withdrawal};
use crate::{
    responders::awaits_acknowledgement,
    status::{cancel, is_finished},
};

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The status to delete the Evacuation with: canceled, if it was active.
    pub status: EvacuationStatus,
    /// True when the finalizer [`CANCELLATION_FINALIZER`](evacuation_api::CANCELLATION_FINALIZER) must hold
    /// the object until the responders that were asked have acknowledged the cancellation.
    pub await_acknowledgements: bool,
}

/// Checks a deletion by `user`: rules 1 and 3, and that no eviction is in flight or accepted.
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
        check_withdrawal(status, entries.first().map(Requester::key))?;
    }
    let mut status = cancel(status, "the evacuation was deleted", now);
    // The first deletion counts the generation up, and the controller writes no more.
    let deleted = i64::from(evacuation.metadata.deletion_timestamp.is_none());
    status.observed_generation = evacuation.metadata.generation.map(|generation| generation + deleted);
    let await_acknowledgements = !namespace_terminating && awaits_acknowledgement(&status, now);
    Ok(Deletion { status, await_acknowledgements })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{asking, asking_for, at, requester, requester_of};
    use evacuation_api::EvictionStatus;

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
        assert!(delete(&e, "alice", true, false, at(1)).unwrap().await_acknowledgements);
        assert!(!delete(&e, "alice", false, true, at(1)).unwrap().await_acknowledgements);
        assert!(delete(&asking(), "alice", false, false, at(1)).unwrap().await_acknowledgements);
    }

    #[test]
    fn one_that_has_ended_is_deleted_by_anyone_and_only_the_asked_are_waited_for() {
        let mut e = foreign(asking());
        e.status = Some(cancel(e.status.as_ref().unwrap(), "x", at(1)));
        let deletion = delete(&e, "carol", false, false, at(2)).unwrap();
        assert_eq!(deletion.status.conditions, e.status.as_ref().unwrap().conditions);
        assert_eq!(deletion.status.observed_generation, Some(2));
        assert!(deletion.await_acknowledgements);
        assert!(!delete(&e, "carol", false, false, at(31)).unwrap().await_acknowledgements);
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
