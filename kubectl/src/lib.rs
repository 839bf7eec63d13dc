//! kubectl plugins: `kubectl create evacuation` and `kubectl evacuate`.
//!
//! kubectl finds a plugin by its name on PATH: `kubectl-create-evacuation` and `kubectl-evacuate` are the
//! binaries, each a few lines over this library.

pub mod answer;
pub mod cancel;
mod complaint;
pub mod completion;
mod connection;
pub mod create;
mod drawing;
mod dry_run;
mod duration;
mod entry;
mod evacuate;
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
mod screen;
pub mod status;
mod summary;
mod surroundings;
mod tracked;
mod tracker;
mod verbosity;
mod verdict;
mod watching;
pub mod why;

pub use evacuate::Evacuate;
pub use exit::{Exit, run};
