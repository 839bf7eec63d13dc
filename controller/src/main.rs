//! The evacuation controller.

use std::process::ExitCode;

use clap::Parser;
use evacuation_controller::{Options, run, shutdown_signal};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let log = options.log;
    // kube logs every failed request; the controller logs those that matter, with the action that failed.
    log.start(&["kube_runtime", "kube_client"]);
    match act(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => log.failed(module_path!(), error.as_ref()),
    }
}

async fn act(options: Options) -> anyhow::Result<()> {
    Ok(run(options, shutdown_signal()?).await?)
}
