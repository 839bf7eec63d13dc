//! The bridges to objects of other projects, on a real control plane.
//!
//! Their real controllers do not run here. The CRDs have the shape of theirs, and the tests do what the
//! controllers would do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod kubevirt;
mod long_nodes;
mod missing;
mod node_maintenance;
mod nvsentinel;
mod stage;
