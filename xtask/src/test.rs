//! `cargo xtask test`

use anyhow::bail;
use clap::Args;

use crate::{
    build::{Profile, build},
    command::{cargo, run},
    fuzz, prerequisites, suites,
};

/// Run all tests, and then each target of the fuzzer for 20 seconds.
#[derive(Args)]
pub(crate) struct Test {
    /// Also the tests with real programs of others: descheduler, VPA updater, kubectl 1.32. They are built
    /// first, which takes 10 minutes or more.
    #[arg(long)]
    long: bool,
    /// Only the tests whose names contain this, and no fuzzer unless it is `fuzz` or the name of a target.
    filter: Option<String>,
}

impl Test {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure_for_tests()?;
        let built = build(Profile::Dev)?;
        let environment =
            [("CONTROLPLANE_BIN", built.control_plane.as_path()), ("EVACUATION_BIN", &built.programs)];
        let results = suites::run(&suites::build()?, self.long, self.filter.as_deref(), &environment)?;
        let mut examples = cargo()?;
        run(examples.args(["test", "--workspace", "--doc", "--quiet"]).args(&self.filter))?;
        let suites::Tally { passed, failed, ignored } = results.tally;
        println!("{passed} passed, {failed} failed, {ignored} skipped");
        let mut failed = results.failed;
        let targets = fuzz::targets_of_tests(self.filter.as_deref())?;
        if !targets.is_empty() {
            println!("== fuzz");
            let fuzzed = fuzz::short_run(targets)?;
            println!("{fuzzed}");
            failed.extend(fuzzed.failed.iter().map(|target| format!("fuzz {target}")));
        }
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
}
