//! The negotiation as the controller leads it: the next step of an Evacuation, decided from the objects and
//! the time, and its progress in words.

mod asking;
mod decide;
mod decision;
mod evicting;
mod expectation;
mod finished;
mod group;
mod left_to_callers;
mod progress;
mod pushing;
mod step;
mod world;

pub use self::{
    asking::{NO_VALID_ANSWER, NOT_ASKED, NOT_REACHED, OUTAGE_GRACE_SECONDS},
    decide::decide,
    decision::{Act, Decision, Push},
    expectation::continues_by,
    left_to_callers::left_to_callers_until,
    progress::{active_answer, current_responder, deleted_despite, state_word},
    step::TERMINATING_MARGIN_SECONDS,
    world::{Attempt, Delivered, World},
};
