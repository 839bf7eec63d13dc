//! The evacuation API server: one strategy per kind.

use clap::Parser;
use evacuation_apiserver::{Options, run};
use machinery_server::shutdown_signal;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    options.log.start(&[]);
    Ok(run(options, shutdown_signal()?).await?)
}
