//! A platform that needs a pod to move: it asks, waits for the end, and withdraws its request after a
//! timeout.
//!
//! `cargo run --example request -- NAMESPACE POD`

use std::time::Duration;

use clap::Parser;
use evacuation_api::RefusalPolicy;
use evacuation_client::Requester;

#[derive(Parser)]
struct Options {
    /// The pod's namespace.
    namespace: String,
    /// The pod's name.
    pod: String,
    /// Time until the request is withdrawn, in seconds.
    #[arg(long, default_value_t = 600)]
    timeout_seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let options = Options::parse();
    let requester = Requester::new(evacuation_client::connect().await?, "example.evacuation.dev/request")
        .reason("Example")
        .message("shown by the example of a requester")
        .on_refusal(RefusalPolicy::Wait);
    let evacuation = requester.evacuate(&options.namespace, &options.pod).await?;
    println!("evacuation {} of pod {}", evacuation.name(), options.pod);
    let timeout = Duration::from_secs(options.timeout_seconds);
    if let Ok(end) = tokio::time::timeout(timeout, evacuation.wait()).await {
        println!("{}", end?);
        return Ok(());
    }
    match evacuation.withdraw().await {
        Ok(()) => println!("waited for {} s: withdrawn", options.timeout_seconds),
        // The eviction was posted: whether the pod goes is seen only by waiting on.
        Err(error) if error.is_too_late() => println!("{}", evacuation.wait().await?),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
