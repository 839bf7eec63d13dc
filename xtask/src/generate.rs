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

/// Each page is made by an example of the crate that holds its table.
fn generate(arguments: &[&str]) -> anyhow::Result<()> {
    for (package, example) in [("evacuation-protocol", "reference"), ("machinery-conformance", "differences")]
    {
        let mut generator = cargo()?;
        generator.args(["run", "--quiet", "--package", package, "--example", example, "--"]);
        run(generator.args(arguments))?;
    }
    Ok(())
}
