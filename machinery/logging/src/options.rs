//! Flags of the log, and its start.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::writer::OneLine;

/// Flags of the log.
#[derive(Args, Clone, Copy, Debug)]
pub struct LogOptions {
    /// Verbosity of the log, from 0 (errors) to 4 (everything); `RUST_LOG` comes first.
    #[arg(short, long = "v", default_value_t = 2)]
    pub verbosity: u8,
    /// Form of the log's lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Form of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogOptions {
    /// Starts the log on standard error, with colours only on a terminal. Call it once.
    ///
    /// `quiet` names crates whose events are left out at the default verbosity, such as `kube_client`.
    pub fn start(self, quiet: &[&str]) {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(self.level(quiet)));
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(OneLine(std::io::stderr));
        match self.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
    }

    fn level(self, quiet: &[&str]) -> String {
        match self.verbosity {
            0 => "error".to_owned(),
            1 => "warn".to_owned(),
            2 => quiet.iter().fold("info".to_owned(), |level, name| format!("{level},{name}=off")),
            3 => "debug,hyper=info,hyper_util=info,rustls=info,tower=info".to_owned(),
            _ => "trace".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_quiet_at_the_default_verbosity_only() {
        let level = |verbosity| LogOptions { verbosity, log_format: LogFormat::Text }.level(&["kube_client"]);
        assert_eq!(level(2), "info,kube_client=off");
        assert_eq!(level(1), "warn");
        assert!(level(3).starts_with("debug,"));
    }
}
