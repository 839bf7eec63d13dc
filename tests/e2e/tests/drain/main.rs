//! Drains by declaration on a real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod cordons;
mod course;
mod crowd;
mod daemon_sets;
mod departures;
mod faults;
mod kubectl_drain;
mod lifecycle;
mod limits;
mod nodes;
mod orphans;
mod records;
mod restored;
mod returns;
mod rules;
mod settings;
mod verdict;
