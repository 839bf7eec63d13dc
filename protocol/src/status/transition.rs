//! The tables of states: the changes of responders and of phases, with their actors and conditions.
//!
//! The server checks every write of a status with [`check_transition`](crate::check_transition). The
//! documentation's diagrams are generated from the tables.

use std::fmt::Write as _;

use evacuation_api::ResponderState;

use super::Phase;

/// The actor of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The API server, while it serves a request.
    Server,
    /// The controller, by a write of the status.
    Controller,
    /// The responder, by an answer.
    Responder,
}

/// Row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition<S> {
    /// The state before.
    pub from: S,
    /// The state after.
    pub to: S,
    /// The actor.
    pub by: Actor,
    /// The condition of the transition, in words.
    pub when: &'static str,
}

const fn row<S: Copy>(from: S, to: S, by: Actor, when: &'static str) -> Transition<S> {
    Transition { from, to, by, when }
}

/// Changes of a responder's state. Other changes are rejected, for every actor.
pub const TRANSITIONS: &[Transition<ResponderState>] = {
    use Actor::{Controller, Responder, Server};
    use ResponderState::{Active, Canceled, Completed, Inactive, Interrupted};
    &[
        row(
            Inactive,
            Active,
            Server,
            "the Evacuation is created, it is the first responder, and a requester is awake",
        ),
        row(Inactive, Active, Controller, "those of higher priority are done, and a requester is awake"),
        row(
            Inactive,
            Interrupted,
            Controller,
            "an Evict or Delete deadline was reached, or self cannot be asked (no running container, unreachable node)",
        ),
        row(Inactive, Canceled, Server, "the Evacuation ended before its turn"),
        row(Active, Active, Responder, "it answers, and may change its answer until it accepts"),
        row(
            Active,
            Completed,
            Controller,
            "it accepted, it refused and the policy is Override, or it answered in a rehearsal",
        ),
        row(
            Active,
            Interrupted,
            Controller,
            "it was silent or out of reach past its timeout, its delay ran out, or an Evict or Delete deadline was \
             reached",
        ),
        row(Active, Canceled, Server, "the Evacuation ended while it was asked"),
        row(Completed, Canceled, Server, "the Evacuation failed after it had answered"),
        row(Interrupted, Canceled, Server, "the Evacuation failed after its time to answer was over"),
        row(Canceled, Canceled, Responder, "it acknowledges the cancellation"),
    ]
};

/// The allowed changes of the phase of an Evacuation.
pub const PHASE_TRANSITIONS: &[Transition<Phase>] = {
    use Actor::{Controller, Server};
    use Phase::{Asking, Evacuated, Evicting, Failed, Pending};
    &[
        row(Pending, Asking, Server, "the Evacuation is created, and its first responder can be asked"),
        row(Pending, Asking, Controller, "a requester is awake: the first responder is asked"),
        row(
            Pending,
            Evicting,
            Controller,
            "a requester is awake and nobody is to be asked, or an Evict or Delete deadline was reached",
        ),
        row(Pending, Evacuated, Controller, "the pod is gone or has ended"),
        row(
            Pending,
            Failed,
            Controller,
            "the last requester's deadline passed with GiveUp, or a rehearsal has nobody to ask",
        ),
        row(Pending, Failed, Server, "it was canceled"),
        row(Asking, Evicting, Controller, "every responder is Completed or Interrupted"),
        row(Asking, Evacuated, Controller, "the pod is gone or has ended"),
        row(
            Asking,
            Failed,
            Controller,
            "a responder refused and the policy is GiveUp, the last requester's deadline passed with GiveUp, or a rehearsal is over",
        ),
        row(Asking, Failed, Server, "it was canceled"),
        row(Evicting, Evacuated, Controller, "the pod is gone or has ended"),
        row(Evicting, Failed, Controller, "the last requester's deadline passed with GiveUp"),
        row(Evicting, Failed, Server, "it was canceled"),
    ]
};

/// Returns true when the table lets that actor take a responder from one state to the other.
pub fn transition_allowed(from: ResponderState, to: ResponderState, by: Actor) -> bool {
    TRANSITIONS.iter().any(|t| t.from == from && t.to == to && t.by == by)
}

/// Returns true when the table lets that actor take an Evacuation from one phase to the other.
pub(crate) fn phase_transition_allowed(from: Phase, to: Phase, by: Actor) -> bool {
    PHASE_TRANSITIONS.iter().any(|t| t.from == from && t.to == to && t.by == by)
}

/// [`TRANSITIONS`] as a Mermaid state diagram.
pub fn responder_diagram() -> String {
    let ends = [ResponderState::Interrupted, ResponderState::Canceled, ResponderState::Completed];
    diagram(TRANSITIONS, ResponderState::Inactive, &ends, |state| format!("{state:?}"))
}

/// [`PHASE_TRANSITIONS`] as a Mermaid state diagram.
pub fn phase_diagram() -> String {
    let ends = [Phase::Evacuated, Phase::Failed];
    diagram(PHASE_TRANSITIONS, Phase::Pending, &ends, |phase| phase.as_str().to_owned())
}

fn diagram<S: Copy>(rows: &[Transition<S>], start: S, ends: &[S], name: impl Fn(S) -> String) -> String {
    let mut text = format!("stateDiagram-v2\n    [*] --> {}\n", name(start));
    for t in rows {
        let by = format!("{:?}", t.by).to_lowercase();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {} --> {}: {} ({by})", name(t.from), name(t.to), t.when);
    }
    for end in ends {
        let _ = writeln!(text, "    {} --> [*]", name(*end));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_leaves_interrupted_and_nothing_but_an_acknowledgement_happens_to_canceled() {
        assert!(
            TRANSITIONS
                .iter()
                .filter(|t| t.from == ResponderState::Interrupted)
                .all(|t| t.to == ResponderState::Canceled && t.by == Actor::Server)
        );
        assert!(
            TRANSITIONS
                .iter()
                .filter(|t| t.from == ResponderState::Canceled)
                .all(|t| t.to == ResponderState::Canceled && t.by == Actor::Responder)
        );
    }

    #[test]
    fn phases_only_go_forward_and_final_ones_have_no_way_out() {
        for t in PHASE_TRANSITIONS {
            assert!(t.from < t.to, "{t:?}");
            assert!(!t.from.is_final(), "{t:?}");
        }
    }

    #[test]
    fn no_row_stands_twice() {
        for (i, t) in TRANSITIONS.iter().enumerate() {
            assert!(
                !TRANSITIONS.iter().skip(i + 1).any(|u| (u.from, u.to, u.by) == (t.from, t.to, t.by)),
                "{t:?}"
            );
        }
    }

    #[test]
    fn the_diagrams_show_every_row_once() {
        let responder = responder_diagram();
        assert_eq!(responder.matches(" --> ").count(), TRANSITIONS.len() + 1 + 3);
        assert!(
            responder.contains("    Inactive --> Active: those of higher priority are done, and a requester is awake (controller)\n")
        );
        assert_eq!(phase_diagram().matches(" --> ").count(), PHASE_TRANSITIONS.len() + 1 + 2);
        assert!(phase_diagram().starts_with("stateDiagram-v2\n    [*] --> Pending\n"));
    }
}
