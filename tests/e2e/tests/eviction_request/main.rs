//! Kubernetes' own EvictionRequests on a real control plane that serves them, and Kubernetes' own validation
//! of what is written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod impostors;
mod oracle;
mod others;
mod refusals;
mod requests;
mod responders;
mod stage;
