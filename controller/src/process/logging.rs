//! The log.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::{LogFormat, Options};

/// Starts the log on standard error. To be called once; `RUST_LOG` comes before the option.
pub fn log(options: &Options) {
    let level = match options.verbosity {
        0 => "error",
        1 => "warn",
        // kube logs every failed request; the controller logs those that matter, with what was tried.
        2 => "info,kube_runtime=off,kube_client=off",
        3 => "debug,hyper=info,hyper_util=info,rustls=info,tower=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match options.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
