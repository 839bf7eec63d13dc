//! The log.

use tracing_subscriber::EnvFilter;

use crate::{LogFormat, Options};

/// Starts the log on standard error. To be called once; `RUST_LOG` comes before the option.
pub fn log(options: &Options) {
    let level = match options.verbosity {
        0 => "error",
        1 => "warn",
        // kube tells of every broken watch itself, which the controller does too.
        2 => "info,kube_runtime=error,kube_client=error",
        3 => "debug,hyper=info,hyper_util=info,rustls=info,tower=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match options.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
