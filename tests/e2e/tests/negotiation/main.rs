//! Asking, answering and evicting on a real control plane: each of the seven rules and the fence, each
//! answer, each way in which an app's endpoint can fail, and what becomes of the pod.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod answers;
mod eviction;
mod input;
mod push;
mod rules;
mod windows;
