//! The log.

use tracing_subscriber::EnvFilter;

use crate::{LogFormat, Options};

/// Starts the log on standard error. To be called once; `RUST_LOG` comes before the option.
pub fn log(options: &Options) {
    let level = match options.verbosity {
        0 => "error",
        1 => "warn",
        2 => "info",
        3 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match options.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
