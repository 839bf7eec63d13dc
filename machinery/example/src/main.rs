//! An aggregated API server for fleets of vehicles.

use clap::Parser;
use machinery_example::{Options, run};
use machinery_server::shutdown_signal;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    options.log.start(&[]);
    run(options, shutdown_signal()?).await
}
