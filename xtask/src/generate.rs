//! `cargo xtask generate`

use clap::Args;

use crate::{
    attack,
    build::target_folder,
    command::{cargo, command, silent},
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

/// Examples of the crates that hold the table of a page. Each makes its page.
const PAGES: [&str; 3] = ["reference", "callers", "differences"];

/// Makes the pages whose table is held by a crate.
fn generate(arguments: &[&str]) -> anyhow::Result<()> {
    // Of the whole workspace, so that dependencies are not built again with the features of one package.
    let mut build = cargo()?;
    build.args(["build", "--quiet", "--workspace"]);
    silent(build.args(PAGES.iter().flat_map(|page| ["--example", page])))?;
    for page in PAGES {
        let example = target_folder()?.join("debug/examples").join(page);
        silent(command(&example.display().to_string())?.args(arguments))?;
    }
    Ok(())
}
