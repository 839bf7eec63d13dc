//! The gateway on a real control plane: plain kubectl, the control plane's own controllers, faults, and the
//! one ledger of budgets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod around;
mod check;
mod content;
mod controllers;
mod deletions;
mod flood;
mod holds;
mod kubectl;
mod ledger;
mod names;
mod outages;
mod passes;
mod records;
mod replicas;
mod stage;
mod successors;
mod surplus;
mod undone;
mod warnings;
mod workloads;
