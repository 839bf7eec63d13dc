//! Apps that are no Rust programs: the guide's HTTP handlers in each language, and what the side-car does for
//! apps that cannot be changed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod handlers;
mod languages;
mod logs;
mod mounted;
mod question;
mod rehearsals;
mod side_car;
mod stopping;
mod watchers;
mod wire;
