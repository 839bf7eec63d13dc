//! `cargo xtask generate`

use clap::Args;

use crate::command::{cargo, run};

/// Write the files that are made from the code, or check that they are up to date.
#[derive(Args)]
pub(crate) struct Generate {
    /// Write nothing; fail when a file is not up to date.
    #[arg(long)]
    check: bool,
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.check { check() } else { generate(&[]) }
    }
}

/// Fails when a file is not up to date.
pub(crate) fn check() -> anyhow::Result<()> {
    generate(&["--check"])
}

/// The reference is made by an example of the protocol crate, which holds the table that it is made from.
fn generate(arguments: &[&str]) -> anyhow::Result<()> {
    let mut example = cargo()?;
    example.args(["run", "--quiet", "--package", "evacuation-protocol", "--example", "reference", "--"]);
    run(example.args(arguments))
}
