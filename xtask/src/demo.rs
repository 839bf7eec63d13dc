//! `cargo xtask demo`

use anyhow::Context;
use clap::Args;

use crate::{
    build::{Profile, build},
    command::{command, run},
    prerequisites,
};

/// Show the main job on a real control plane: ask, answer, evict.
#[derive(Args)]
pub(crate) struct Demo {
    /// Leave the cluster up and print how to use it with kubectl; Ctrl-C ends it.
    #[arg(long)]
    keep: bool,
    /// Play only what a picture shows, and draw its terminal: the drain of three nodes to
    /// docs/images/drain.svg, or the commands of a person on call to docs/images/night.svg.
    #[arg(long, value_name = "PICTURE", value_parser = ["drain", "night"], conflicts_with = "keep")]
    svg: Option<String>,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure()?;
        let built = build(Profile::Dev)?;
        let mut demo = command(&built.programs.join("demo").display().to_string())?;
        demo.env("CONTROLPLANE_BIN", &built.control_plane);
        if self.keep {
            demo.arg("--keep");
        }
        if let Some(picture) = &self.svg {
            demo.args(["--svg", picture]);
        }
        // Ctrl-C is the demo's: it stops what it started, and this waits for it.
        ctrlc::set_handler(|| {}).context("Ctrl-C cannot be left to the demo")?;
        run(&mut demo)
    }
}
