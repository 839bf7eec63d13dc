//! kubectl plugins: `kubectl create evacuation` and `kubectl evacuate`.
//!
//! kubectl finds a plugin by its name on PATH: `kubectl-create-evacuation` and `kubectl-evacuate` are the
//! binaries, each a few lines over this library.

pub mod cancel;
mod complaint;
mod connection;
pub mod create;
mod dry_run;
mod duration;
mod exit;
mod label_selector;
pub mod lint;
pub mod node;
mod output;
pub mod pause;
mod plain;
mod pod_name;
mod progress;
mod requester_flags;
pub mod status;
mod surroundings;
mod tracker;
mod watching;
pub mod why;

pub use exit::{Exit, run};
