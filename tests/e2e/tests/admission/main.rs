//! Admission of our kinds: webhooks that stand in for Kyverno and Gatekeeper, policies and quota of the
//! cluster. kube-apiserver runs none of them for these kinds; the API server does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod deletion;
mod isolation;
mod manifests;
mod mutating;
mod policies;
mod quota;
mod relay;
mod selection;
mod stage;
mod tokens;
mod validating;
mod webhook;
