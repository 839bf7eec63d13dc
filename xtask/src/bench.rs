//! `cargo xtask bench NAME`

use clap::Args;

use crate::{
    build::{Profile, build},
    command::{command, run},
    prerequisites,
};

/// Measure, beside the peers.
#[derive(Args)]
pub(crate) struct Bench {
    /// The benchmark: drain, latency or surge.
    #[arg(value_parser = ["drain", "latency", "surge"])]
    name: String,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
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
        run(&mut bench)
    }
}
