//! Programs of others behind the gateway, as they are: each one evicts pods whose apps accept, ask for time,
//! refuse, stay silent or know nothing. A checker that reads the audit log and the apps' logs judges them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod cast;
mod descheduler;
mod karpenter;
mod kubectl;
#[path = "../gateway/stage.rs"]
#[expect(dead_code, reason = "the suite of the gateway uses the rest")]
mod stage;
mod vpa;
