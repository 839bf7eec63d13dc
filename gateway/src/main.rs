//! The gateway: admission webhooks that ask before a pod is evicted or deleted.

use clap::Parser;
use evacuation_gateway::{Options, check, run};

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    // kube logs every failed request; the gateway logs those that matter, with the action that failed.
    options.log.start(&["kube_runtime", "kube_client"]);
    match &options.check {
        Some(file) => Ok(check(file)?),
        None => Ok(run(options).await?),
    }
}
