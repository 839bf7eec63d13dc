//! Memory of the processes that keep objects of tenants, with the real programs and an API that serves as
//! much as a tenant can store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod api;
mod limit;
mod program;
mod tenants;
mod worst;
