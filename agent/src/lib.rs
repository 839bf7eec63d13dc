//! The side-car that answers evacuations for an app that cannot be changed.
//!
//! The platform asks for the pod; the agent runs a command or calls a local URL, and answers with the
//! outcome. While the work runs, the agent renews a delay. After a cancellation the work is stopped and
//! undone. The user's page is `docs/guide/side-car.md`.
//!
//! **Flow.** [`Options`] → [`run`] → `Responder` of the client crate → `Answering` (a question
//! becomes a run) → `Work` (at most one run at a time) → `Action` (a command or a URL) → `Verdict`
//! → the answer. A preStop hook reaches the same `Work` through a Unix socket.

mod action;
mod answering;
mod bounds;
mod call;
mod children;
mod command;
mod context;
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod install;
mod options;
mod output;
mod owner;
mod plain;
mod pre_stop;
mod process;
mod socket;
mod verdict;
mod work;

pub use options::Options;
pub use process::{Error, run};
