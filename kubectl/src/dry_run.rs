//! `--dry-run`, with kubectl's meanings.

use clap::{Args, ValueEnum};

/// The flag.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DryRunFlag {
    /// client: only print what would be sent; server: have the server check it and store nothing.
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub(crate) dry_run: DryRun,
}

/// Kind of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// No dry run: changes are stored.
    #[default]
    None,
    /// No change is sent.
    Client,
    /// The server checks everything and stores nothing.
    Server,
}

impl DryRun {
    /// Suffix of a printed change; empty without a dry run.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}
