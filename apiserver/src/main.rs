//! The evacuation API server: one strategy per kind.

use std::process::ExitCode;

use clap::Parser;
use evacuation_apiserver::{Options, run};
use machinery_server::shutdown_signal;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let log = options.log;
    log.start(&[]);
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => log.failed(module_path!(), error.as_ref()),
    }
}

async fn serve(options: Options) -> anyhow::Result<()> {
    Ok(run(options, shutdown_signal()?).await?)
}
