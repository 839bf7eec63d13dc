//! The protocol, model-checked: the functions that run, in every order that a small world allows.
//!
//! The server and the controllers of the model call `evacuation-protocol` itself, so what is proved is proved of the code that
//! runs. What the model adds is the world around it: a clock, controllers that see late and die between any two steps,
//! requests and replies that are lost, people who change their minds, a budget, and the API that evicts.
//!
//! # Flow
//!
//! 1. A [`Config`] says what a world is made of; [`explore`] walks all of its states.
//! 2. Every change of an Evacuation and every eviction is judged by what was told to people, kept apart from the status
//!    (`history`, `judge`); a [`Law`] that is broken stops the walk with the shortest way there.
//! 3. From every state at rest the world is played fairly to its end (`ending`).
//! 4. [`Rules`] switch off one rule of the server or the controller at a time: the walk must then find what the rule is for.

mod config;
mod controller;
mod ending;
mod environment;
mod explore;
mod forgery;
mod history;
mod judge;
mod law;
mod model;
mod rules;
mod server;
mod state;
mod worlds;

pub use config::{Config, Entry, Limits, Registered, Say, User};
pub use explore::{Counterexample, Exploration, explore};
pub use forgery::Forgery;
pub use law::{Broken, Law};
pub use model::{Action, Negotiation};
pub use rules::Rules;
pub use state::State;
pub use worlds::worlds;
