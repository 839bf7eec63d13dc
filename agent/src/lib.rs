//! The side-car that answers evacuations for an app that cannot be changed.
//!
//! When the platform asks for the pod, the agent runs a command or calls a local URL, and what comes of it is the
//! answer. While the work goes on the agent keeps the platform waiting; when the platform changes its mind the work is
//! stopped and undone. `docs/guide/side-car.md` is the user's page.
//!
//! **Flow.** [`Options`] → [`run`] → `Responder` of the client crate → `Answering` (a question becomes a run) → `Work` (at most one
//! run at a time) → `Action` (a command or a URL) → `Verdict` → the answer. A preStop hook reaches the same `Work` through a
//! Unix socket.

mod action;
mod answering;
mod call;
mod children;
mod command;
mod context;
mod health;
mod install;
mod log;
mod options;
mod output;
mod plain;
mod pre_stop;
mod process;
mod socket;
mod verdict;
mod work;

pub use log::Stderr;
pub use options::Options;
pub use process::{Error, run};
