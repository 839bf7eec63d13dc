//! The protocol, model-checked: the functions that run, in every order that a small world allows.
//!
//! The server and the controllers of the model call `evacuation-protocol` itself, so the proof is about the
//! code that runs. The model adds the world around it: a clock, controllers with stale views that die between
//! any two steps, lost requests and replies, people who change their minds, a budget, and the API that
//! evicts.
//!
//! # Flow
//!
//! 1. A [`Config`] describes a world; [`explore`] walks all of its states.
//! 2. Every change of an Evacuation and every eviction is judged by the history seen from outside, kept apart
//!    from the status (`history`, `judge`). A broken [`Law`] stops the walk with the shortest path to it.
//! 3. Every state without a request in progress is played fairly to its end (`ending`).
//! 4. [`Rules`] switch off one rule of the server or the controller at a time. The walk must then find a
//!    broken law.

mod config;
mod controller;
mod drains;
mod ending;
mod endpoint;
mod environment;
mod explore;
mod forgery;
mod gates;
mod history;
mod invariant;
mod judge;
mod law;
mod model;
mod negotiation;
mod rules;
mod server;
mod state;
mod worlds;

pub use config::{Config, Entry, Limits, Registered, Say, User};
pub use drains::{
    DrainAction, DrainConfig, DrainExploration, DrainFlaw, DrainLaw, DrainState, Drains, drain_worlds,
    explore_drains,
};
pub use explore::{Counterexample, Exploration, explore};
pub use forgery::Forgery;
pub use gates::{GateAction, GateConfig, GateExploration, GateState, Gates, explore_gates, gate_worlds};
pub use invariant::violations;
pub use law::{Broken, Law};
pub use model::Action;
pub use negotiation::Negotiation;
pub use rules::Rules;
pub use state::State;
pub use worlds::worlds;
