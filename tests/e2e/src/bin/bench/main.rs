//! Benchmarks on the installed system, each beside its peer in the same run.

mod apps;
mod drain;
mod latency;
mod peer;
mod report;
mod samples;
mod surge;

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
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// From create to the app being asked, and from Accept to the eviction call.
    Latency,
    /// Half of the nodes are drained at once, with a budget and without; then most of them in turn.
    Drain,
    /// Measures the time without an available replica while a single one is evacuated.
    Surge,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let rows = match options.name {
        Name::Latency => latency::run().await?,
        Name::Drain => drain::run().await?,
        Name::Surge => surge::run().await?,
    };
    report::print(&rows, options.json)
}
