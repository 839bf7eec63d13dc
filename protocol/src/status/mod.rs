//! The parts of a status: its conditions, its phase, the tables of allowed changes, and the end of an
//! Evacuation. Every other module writes conditions through this one.

mod blocked;
mod budget;
mod condition;
mod finish;
mod message;
mod phase;
mod transition;

pub(crate) use self::{
    blocked::{Block, is_by_budget, time_budgets},
    budget::{budget_block, several},
    condition::put,
    finish::{fail, finish, succeed, unblock},
    message::{cut, quote, remark, truncated},
    phase::phase_of,
    transition::phase_transition_allowed,
};
pub use self::{
    budget::{NEEDS_NONE, needs_none},
    condition::{finished_reason, is_finished},
    finish::cancel,
    message::is_unseen,
    phase::{Phase, phase},
    transition::{
        Actor, PHASE_TRANSITIONS, TRANSITIONS, Transition, phase_diagram, responder_diagram,
        transition_allowed,
    },
};
