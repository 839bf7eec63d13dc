//! Clients of the API server that were written for kube-apiserver: kubectl and kube-rs manage the kinds of
//! this project by server-side apply. Each test reads the objects by raw requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod apply;
mod conflict;
mod entries;
mod kube_rs;
mod kubectl;
mod languages;
mod managers;
#[expect(dead_code, reason = "the long suite uses the rest")]
mod matrix;
mod metrics;
mod migration;
mod status;
mod websocket;
mod workbench;
