//! The rules between objects: what may change, and what to do next.
//!
//! This crate is pure. It has no I/O and reads no clock: every function takes the objects and the time, and
//! returns what follows. The server calls it to guard the rules, the controller to decide ([`decide`]),
//! kubectl to pick pods ([`pick`]) and to find words ([`state_word`]); a model checker can walk the very code
//! that runs.
//!
//! # Flow
//!
//! 1. [`begin`] and [`fix_responders`] make the status of a new Evacuation; [`check_requester_edit`] and
//!    [`apply_requester_edit`] guard who may join, change and leave; [`delete`] and [`cancel`] end it early.
//! 2. [`decide`] decides the controller's next step; [`check_status_update`] checks that write by the
//!    server's clock.
//! 3. [`answer`] takes a responder's answer.
//! 4. [`record_eviction`] turns the outcome of an attempt into the next status.

mod activation;
mod answer;
mod answer_error;
mod block;
mod cancel;
mod condition;
mod decide;
mod drain;
mod edit_error;
mod ending;
mod eviction;
mod expectation;
mod fence;
mod invariant;
mod lapse;
mod learning;
mod ownership;
mod phase;
mod policy;
mod question;
mod recorded;
mod registration;
mod requester_warnings;
mod requesters;
mod selector;
mod status_error;
mod status_update;
mod target;
#[cfg(test)]
mod testing;
mod time;
mod transition;
mod upstream;
mod window;
mod words;
mod world;

pub use activation::fix_responders;
pub use answer::answer;
pub use answer_error::{AnswerError, DelayBound};
pub use cancel::{Deletion, cancel, delete};
pub use condition::{finished_reason, is_finished};
pub use decide::{
    Act, Decision, NODE_UNREACHABLE, OUTAGE_GRACE_SECONDS, Push, TERMINATING_MARGIN_SECONDS, decide,
};
pub use drain::{DrainFilters, DrainRefusal, DrainSkip, DrainWarning, Picked, pick};
pub use edit_error::EditError;
pub use eviction::{ATTEMPT_TIMEOUT_SECONDS, EvictionOutcome, PROBE_SECONDS, record_eviction, retry_delay};
pub use expectation::goes_on_by;
pub use invariant::violations;
pub use learning::{LEARNING_SECONDS, asked_responders, must_learn};
pub use ownership::MIN_SHARED_TTL_SECONDS;
pub use phase::{active_answer, current_responder, phase, state_word};
pub use policy::{all_lapsed, derive_policy, has_lapsed};
pub use question::question;
pub use registration::{Registered, registered_responders};
pub use requester_warnings::requester_warnings;
pub use requesters::{
    Editor, RequesterEdit, apply_requester_edit, begin, check_creation, check_requester_edit,
};
pub use selector::selects;
pub use status_error::StatusError;
pub use status_update::check_status_update;
pub use target::{TargetProblem, TargetWarning, target_problem, target_warning};
pub use transition::{
    Actor, PHASE_TRANSITIONS, Phase, TRANSITIONS, Transition, check_transition, phase_diagram,
    responder_diagram, transition_allowed,
};
pub use window::all_asleep;
pub use world::{Attempt, BudgetView, LivePod, PodPhase, PodView, World};
