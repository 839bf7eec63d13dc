//! `cargo xtask generate`

use clap::Args;

use crate::{
    attack,
    command::{cargo, run},
};

/// Write the files that are made from the code, or check that they are up to date.
#[derive(Args)]
pub(crate) struct Generate {
    /// Write nothing; fail when a file is not up to date.
    #[arg(long)]
    check: bool,
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.check {
            return check();
        }
        generate(&[])?;
        attack::write()
    }
}

/// Fails when a file is not up to date.
pub(crate) fn check() -> anyhow::Result<()> {
    generate(&["--check"])?;
    attack::check()
}

/// Makes the pages whose table is held by a crate, each by an example of that crate.
fn generate(arguments: &[&str]) -> anyhow::Result<()> {
    let pages = [
        ("evacuation-protocol", "reference"),
        ("evacuation-gateway", "callers"),
        ("machinery-conformance", "differences"),
    ];
    for (package, example) in pages {
        let mut generator = cargo()?;
        generator.args(["run", "--quiet", "--package", package, "--example", example, "--"]);
        run(generator.args(arguments))?;
    }
    Ok(())
}
