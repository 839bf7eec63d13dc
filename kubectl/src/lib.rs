//! kubectl plugins: `kubectl create evacuation` and `kubectl evacuate`.
//!
//! kubectl finds a plugin by its name on PATH: `kubectl-create-evacuation` and `kubectl-evacuate` are the
//! binaries, each a few lines over this library.

mod complaint;
mod connection;
pub mod create;
mod dry_run;
mod exit;
pub mod lint;
pub mod node;
mod output;
mod progress;
mod requester_flags;
mod tracker;

pub use exit::{Exit, run};
