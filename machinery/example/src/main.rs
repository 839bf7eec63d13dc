//! An aggregated API server for fleets of vehicles.

use std::process::ExitCode;

use clap::Parser;
use machinery_example::{Options, run};
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
    run(options, shutdown_signal()?).await
}
