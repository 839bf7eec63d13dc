//! Benchmarks on the installed system, each beside its peer in the same run.

mod api;
mod apps;
mod drain;
mod gateway;
mod latency;
mod peer;
mod proc_files;
mod report;
mod samples;
mod surge;

use anyhow::ensure;
use clap::{Parser, ValueEnum};

/// Measure, beside the peers.
#[derive(Parser)]
struct Options {
    /// Name of the benchmark.
    #[arg(value_enum)]
    name: Name,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scale: drain::Scale,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Cost and rate of creates, gets, updates, lists and watches, beside a custom resource and Kubernetes'
    /// sample API server.
    Api,
    /// From create to the app being asked, and from Accept to the eviction call.
    Latency,
    /// Half of the nodes are drained at once, with a budget and without; then most of them in turn; then a
    /// node with many pods.
    Drain,
    /// Growth of the cost of a drain with the cluster, up to 500 nodes with 15,000 pods. Draws a plot.
    DrainScale,
    /// Measures what the gateway adds to evictions and deletions.
    Gateway,
    /// Measures the time without an available replica while a single one is evacuated.
    Surge,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let is_scale = options.name == Name::DrainScale;
    ensure!(is_scale || options.scale == drain::Scale::default(), "--svg and --max-pods need drain-scale");
    let rows = match options.name {
        Name::Api => api::run().await?,
        Name::Latency => latency::run().await?,
        Name::Drain => drain::run().await?,
        Name::DrainScale => drain::run_scale(options.scale).await?,
        Name::Gateway => gateway::run().await?,
        Name::Surge => surge::run().await?,
    };
    report::print(&rows, options.json)
}
