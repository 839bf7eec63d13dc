//! The evacuation controller.

use clap::Parser;
use evacuation_controller::{Options, log, run, shutdown_signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    log(&options);
    Ok(run(options, shutdown_signal()?).await?)
}
