//! The evacuation controller.

use clap::Parser;
use evacuation_controller::{Options, run, shutdown_signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    // kube logs every failed request; the controller logs those that matter, with the action that failed.
    options.log.start(&["kube_runtime", "kube_client"]);
    Ok(run(options, shutdown_signal()?).await?)
}
