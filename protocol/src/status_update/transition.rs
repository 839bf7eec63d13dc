//! Check of every write of a status against the tables of transitions: rule 6.

use evacuation_api::{EvacuationStatus, ResponderState, ResponderStatus};

use super::StatusError;
use crate::status::{Actor, Phase, phase_of, phase_transition_allowed, transition_allowed};

/// Checks that a change of the status is in the tables: every write of the server passes here. `before` is
/// `None` for a new Evacuation.
///
/// If a write ends the Evacuation, the server cancels the responders in the same write, for every actor.
///
/// # Errors
///
/// [`StatusError::Transition`] or [`StatusError::Phase`], the first that is not in the tables.
pub fn check_transition(
    before: Option<&EvacuationStatus>,
    after: &EvacuationStatus,
    by: Actor,
) -> Result<(), StatusError> {
    let was = before.map_or(Phase::Pending, phase_of);
    let is = phase_of(after);
    if was != is && !phase_transition_allowed(was, is, by) {
        return Err(StatusError::Phase { from: was, to: is, by });
    }
    let old = before.and_then(|status| status.responders.as_deref());
    for (i, responder) in after.responders.iter().flatten().enumerate() {
        let old = old.map(|all| all.get(i));
        let from = match old {
            None => ResponderState::Inactive,
            Some(Some(old)) if old.name == responder.name => old.state,
            Some(_) => return Err(StatusError::Responders { why: "the list is fixed once it is written" }),
        };
        let said = old.flatten().is_some_and(|old| said(old) != said(responder));
        let to = responder.state;
        let ends = is.is_final() && to == ResponderState::Canceled;
        let allowed = match (from == to, said) {
            (true, false) => true,
            (true, true) => transition_allowed(from, to, Actor::Responder) && by == Actor::Responder,
            (false, _) => {
                transition_allowed(from, to, by) || (ends && transition_allowed(from, to, Actor::Server))
            }
        };
        if !allowed {
            let responder = responder.name.clone();
            return Err(StatusError::Transition {
                responder,
                from,
                to,
                why: "the transition table does not have it",
            });
        }
    }
    Ok(())
}

/// The part of a responder's status that only the responder changes.
fn said(responder: &ResponderStatus) -> impl PartialEq {
    (responder.answer, responder.answer_time, responder.cancellation_acknowledged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_tables_is_rejected_for_every_actor() {
        use ResponderState::{Active, Canceled, Completed, Inactive, Interrupted};

        let status = |state| {
            let mut status = crate::testing::asking().status.unwrap();
            status.responders.as_mut().unwrap()[0].state = state;
            if state == Canceled {
                status.conditions = vec![crate::testing::condition("Failed", "True", "Canceled")];
            }
            status
        };
        let all = [Inactive, Active, Interrupted, Canceled, Completed];
        let actors = [Actor::Server, Actor::Controller, Actor::Responder];
        for (from, to, by) in
            all.iter().flat_map(|f| all.iter().flat_map(move |t| actors.map(|b| (*f, *t, b))))
        {
            // The end cancels, for every actor.
            let ends = to == Canceled && transition_allowed(from, to, Actor::Server);
            let in_table = from == to || transition_allowed(from, to, by) || ends;
            let (old, new) = (status(from), status(to));
            let phases = (phase_of(&old), phase_of(&new));
            let expected =
                in_table && (phases.0 == phases.1 || phase_transition_allowed(phases.0, phases.1, by));
            assert_eq!(check_transition(Some(&old), &new, by).is_ok(), expected, "{from:?} {to:?} {by:?}");
        }
    }

    #[test]
    fn only_a_responder_answers() {
        let old = crate::testing::asking().status.unwrap();
        let mut new = old.clone();
        new.responders.as_mut().unwrap()[0].answer = Some(evacuation_api::Answer::Accept);
        for (by, allowed) in [(Actor::Responder, true), (Actor::Controller, false), (Actor::Server, false)] {
            assert_eq!(check_transition(Some(&old), &new, by).is_ok(), allowed, "{by:?}");
        }
    }
}
