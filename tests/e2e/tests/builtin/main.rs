//! The responders that the project plays itself, on a real control plane.
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

use evacuation_e2e::PlatformOptions;

/// A platform with the built-in responders.
pub(crate) fn options() -> PlatformOptions {
    PlatformOptions { components: vec!["built-in-responders".to_owned()], ..PlatformOptions::default() }
}
