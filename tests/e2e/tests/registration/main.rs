//! Registration by selector on a real control plane: who is asked, in which order, and how a Service is
//! asked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod database;
mod endpoint;
mod order;

mod service;
