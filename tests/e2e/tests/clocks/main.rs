//! Clocks that are a minute off, or are set by a minute in the middle: nothing is early by the API server's
//! clock, and nothing late.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod api_server;
mod controller;
mod waits;
mod wrong;
