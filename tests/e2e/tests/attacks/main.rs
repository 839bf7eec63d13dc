//! Attacks of one tenant on a real control plane. Beside each runs a drain that does not concern the tenant
//! and must finish.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod attestation;
mod credentials;
mod decoders;
mod entries;
mod flood;
mod gangs;
mod impostor;
mod objects;
mod pace;
mod refused;
mod registrations;
mod room;
mod rotation;
mod seats;
mod successors;
mod tenant;
mod unreadable;
mod watcher;
