//! The command line while a part of the system is down: it says which, since when, and what helps.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod asleep;
mod check;
mod commands;
mod follow;

use evacuation_e2e::{PlatformOptions, Pool, Scene};

/// The platforms whose parts the tests stop, each in one test at a time.
static PLATFORMS: Pool = Pool::new(2, PlatformOptions::default);

/// A scene whose platform a test may disturb.
async fn scene(prefix: &str) -> Scene {
    Scene::from_pool(prefix, &PLATFORMS).await
}
