//! The responders that the controller plays itself, on a real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod gate;
mod surge;
mod workload;
