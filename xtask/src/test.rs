//! `cargo xtask test`

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    build::{Profile, build},
    command::cargo,
    prerequisites,
};

/// Run all tests.
#[derive(Args)]
pub(crate) struct Test {
    /// Only the tests whose names contain this.
    filter: Option<String>,
}

/// What the test binaries reported, added up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Adds a line such as `test result: ok. 6 passed; 0 failed; 1 ignored; ...`; other lines change nothing.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let counts = result.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl Test {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure_for_tests()?;
        let built = build(Profile::Dev)?;
        let mut tests = cargo()?;
        tests.args(["test", "--workspace", "--no-fail-fast"]).env("CONTROLPLANE_BIN", &built.control_plane);
        tests.env("EVACUATION_BIN", &built.programs);
        if let Some(filter) = &self.filter {
            tests.arg(filter);
        }
        let mut child = tests.stdout(Stdio::piped()).spawn().context("cargo test did not start")?;
        let mut tally = Tally::default();
        let stdout = child.stdout.take().context("cargo test has no output")?;
        for line in BufReader::new(stdout).lines() {
            let line = line.context("the output of cargo test cannot be read")?;
            tally.add(&line);
            println!("{line}");
        }
        let status = child.wait().context("cargo test was lost")?;
        println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.ignored);
        if !status.success() {
            bail!("cargo test failed: {status}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_test_binaries_are_added_up() {
        let mut tally = Tally::default();
        tally.add(
            "test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        tally.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.2s");
        tally.add("test a::b ... ok");
        assert_eq!(tally, Tally { passed: 8, failed: 3, ignored: 1 });
    }
}
