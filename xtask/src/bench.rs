//! `cargo xtask bench NAME`

use std::path::{PathBuf, absolute};

use anyhow::Context;
use clap::Args;

use crate::{
    build::{Profile, build},
    command::{command, run},
    prerequisites,
};

/// Measure, beside the peers.
#[derive(Args)]
pub(crate) struct Bench {
    /// The benchmark: api, drain, drain-scale, gateway, latency or surge.
    #[arg(value_parser = ["api", "drain", "drain-scale", "gateway", "latency", "surge"])]
    name: String,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// File of the plot of drain-scale, by default target/drain-scale.svg.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Maximum number of pods in drain-scale, by default 15000. Larger clusters are left out.
    #[arg(long, value_name = "PODS")]
    max_pods: Option<usize>,
}

impl Bench {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure()?;
        let built = build(Profile::Release)?;
        let mut bench = command(&built.programs.join("bench").display().to_string())?;
        bench.arg(&self.name).env("CONTROLPLANE_BIN", &built.control_plane);
        if self.json {
            bench.arg("--json");
        }
        if let Some(svg) = self.svg {
            // The benchmark runs in the project's root.
            let svg = absolute(&svg).with_context(|| format!("{} is no path", svg.display()))?;
            bench.arg("--svg").arg(svg);
        }
        bench.args(self.max_pods.map(|pods| format!("--max-pods={pods}")));
        run(&mut bench)
    }
}
