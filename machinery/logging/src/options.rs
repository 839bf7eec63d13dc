//! Flags of the log, its start, and the last line of a process that fails.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    error::Error,
    io::{IsTerminal, Write},
    panic::PanicHookInfo,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tracing::Level;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, registry, util::SubscriberInitExt};

use crate::{
    json::{JsonLine, line, with_causes},
    one_line,
    writer::OneLine,
};

/// Verbosity without a flag.
const VERBOSITY: u8 = 2;

/// Flags of the log.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Verbosity of the log, from 0 (errors) to 4 (everything); `RUST_LOG` comes first.
    #[arg(short, long = "v", default_value_t = VERBOSITY)]
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

impl Default for LogOptions {
    /// The defaults of the flags.
    fn default() -> Self {
        Self { verbosity: VERBOSITY, log_format: LogFormat::Text }
    }
}

impl LogOptions {
    /// Starts the log on standard error, with colours only on a terminal. Call it once.
    ///
    /// `quiet` names crates whose events are left out at the default verbosity, such as `kube_client`. As
    /// JSON, a panic is a line of the log, too.
    pub fn start(self, quiet: &[&str]) {
        let of_environment = std::env::var("RUST_LOG").ok().filter(|levels| !levels.is_empty());
        let filter = of_environment.and_then(|levels| levels.parse::<Targets>().ok());
        let log = registry().with(filter.unwrap_or_else(|| self.targets(quiet)));
        let lines = fmt::layer().with_writer(OneLine(std::io::stderr));
        match self.log_format {
            LogFormat::Text => log.with(lines.with_ansi(std::io::stderr().is_terminal())).init(),
            LogFormat::Json => {
                log.with(lines.with_ansi(false).event_format(JsonLine)).init();
                std::panic::set_hook(Box::new(|panic| write_line(&panic_line(panic))));
            }
        }
    }

    /// Writes the error with which the process `target` ends, with its causes, whatever the verbosity.
    pub fn failed(self, target: &str, error: &(dyn Error + 'static)) -> ExitCode {
        let text = with_causes(error);
        match self.log_format {
            LogFormat::Text => write_line(&format!("Error: {}", one_line(&text))),
            LogFormat::Json => {
                write_line(&Value::Object(line(Level::ERROR, target, &text, Map::new())).to_string());
            }
        }
        ExitCode::FAILURE
    }

    fn targets(self, quiet: &[&str]) -> Targets {
        let log = Targets::new();
        match self.verbosity {
            0 => log.with_default(Level::ERROR),
            1 => log.with_default(Level::WARN),
            2 => {
                let quiet = quiet.iter().map(|name| (*name, tracing::level_filters::LevelFilter::OFF));
                log.with_default(Level::INFO).with_targets(quiet)
            }
            3 => {
                let chatty = ["hyper", "hyper_util", "rustls", "tower"];
                log.with_default(Level::DEBUG).with_targets(chatty.map(|name| (name, Level::INFO)))
            }
            _ => log.with_default(Level::TRACE),
        }
    }
}

fn panic_line(panic: &PanicHookInfo<'_>) -> String {
    let mut fields = Map::new();
    if let Some(location) = panic.location() {
        fields.insert("location".to_owned(), location.to_string().into());
    }
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        fields.insert("backtrace".to_owned(), backtrace.to_string().into());
    }
    let message = panic.payload_as_str().unwrap_or("the panic has no text");
    Value::Object(line(Level::ERROR, "panic", message, fields)).to_string()
}

/// Without standard error there is no place left to report to.
fn write_line(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_quiet_at_the_default_verbosity_only() {
        let enabled = |verbosity, target, level| {
            let log = LogOptions { verbosity, ..LogOptions::default() }.targets(&["kube_client"]);
            log.would_enable(target, &level)
        };
        assert!(enabled(2, "evacuation", Level::INFO) && !enabled(2, "evacuation", Level::DEBUG));
        assert!(!enabled(2, "kube_client::client", Level::ERROR));
        assert!(enabled(1, "kube_client::client", Level::WARN));
        assert!(enabled(3, "kube_client", Level::DEBUG) && !enabled(3, "hyper::proto", Level::DEBUG));
        assert!(enabled(4, "hyper::proto", Level::TRACE));
    }
}
