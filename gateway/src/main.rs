//! The gateway: admission webhooks that ask before a pod is evicted or deleted.

use std::process::ExitCode;

use clap::Parser;
use evacuation_gateway::{Options, check, run};

#[actix_web::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let log = options.log;
    // kube logs every failed request; the gateway logs those that matter, with the action that failed.
    log.start(&["kube_runtime", "kube_client"]);
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => log.failed(module_path!(), error.as_ref()),
    }
}

async fn serve(options: Options) -> anyhow::Result<()> {
    match &options.check {
        Some(file) => Ok(check(file)?),
        None => Ok(run(options).await?),
    }
}
