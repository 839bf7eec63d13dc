//! The view of a person at the command line: real kubectl, and the project's plugins.
//!
//! All tests share one platform. Their pods run on `node-1`, so that nodes which a test adds are its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod answer;
mod completion;
mod connection;
mod desk;
mod discovery;
mod drain;
mod drain_course;
mod drain_end;
mod edit;
mod input;
mod long_nodes;
mod plugin;
mod plugin_flags;
mod read;
mod terminal;
mod watch;
mod windows;
