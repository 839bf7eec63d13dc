//! Evacuations during and after the outage of a part of the system.
//!
//! Each test disturbs its platform, so that a platform serves one test at a time. The next test finds it
//! mended.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod api_server;
mod certificate;
mod drain;
mod embedded;
mod etcd;
mod in_flight;
mod kube_apiserver;
mod namespaces;
mod no_space;
mod pushed;
mod replicas;
mod restored;
mod takeover;
mod webhook;
mod worker;
