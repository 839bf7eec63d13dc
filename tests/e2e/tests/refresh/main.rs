//! Pods that are stuck in CrashLoopBackOff are asked to move, on a real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod backoff;
mod crashes;
mod others;
mod thresholds;
mod withdrawal;
