//! kubectl plugins: `kubectl create evacuation` and `kubectl evacuate`.
//!
//! kubectl finds a plugin by its name on PATH: `kubectl-create-evacuation` and `kubectl-evacuate` are the
//! binaries, each a few lines over this library.

pub mod answer;
mod blockers;
pub mod cancel;
pub mod check;
pub mod clean;
mod complaint;
pub mod completion;
mod connection;
pub mod create;
mod documents;
mod drain_ref;
mod drawing;
mod dry_run;
mod duration;
mod entry;
mod evacuate;
mod exit;
mod fold;
mod foreign_flag;
mod grant;
mod label_selector;
pub mod lint;
mod listing;
mod moment;
mod next;
pub mod node;
mod node_name;
mod output;
pub mod overriding;
pub mod pause;
mod plain;
mod pod_evacuation;
mod pod_name;
mod progress;
pub mod rehearsal;
mod requester_flags;
mod said;
mod screen;
pub mod set;
mod statement;
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
