//! The evacuation API server: one strategy per kind.

mod options;
mod run;

pub use options::{LogFormat, Options, Storage};
pub use run::{RunError, run};
