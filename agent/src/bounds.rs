//! Limits of one run of the work.

use std::time::Duration;

use clap::Args;

/// Limits of one run.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum duration of one run of the command or call of the URL.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) limit: Duration,
    /// Time between SIGTERM and SIGKILL for a command that is stopped.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
}
