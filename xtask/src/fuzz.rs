//! `cargo xtask fuzz`

use std::{fs, io, path::Path};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    build::target_folder,
    command::{cargo, root, run},
    fuzzer::{Bound, CORPUS, Fuzzer, Outcome},
    prerequisites,
};

/// Number of inputs that the tests make for each target, from its corpus and always the same.
const TESTED: usize = 20_000;
/// Seconds of each target in the short run.
const SHORT: u64 = 20;
/// Seconds of each target in the long run.
const LONG: u64 = 600;
/// Filter of the tests that means all targets.
const ALL: &str = "fuzz";

/// Feed the parsers of outside bytes with generated inputs, as many targets at once as there are cores.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// 10 minutes a target instead of 20 seconds.
    #[arg(long)]
    long: bool,
    /// Seconds for each target.
    #[arg(long, conflicts_with = "long")]
    seconds: Option<u64>,
    /// Replace the inputs in the repository by the few of all inputs that reach the most code. Seeds stay.
    #[arg(long)]
    keep: bool,
    /// Only these targets: folders in fuzz/corpus.
    targets: Vec<String>,
}

impl Fuzz {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let all = targets(&root()?.join(CORPUS))?;
        if let Some(unknown) = self.targets.iter().find(|target| !all.contains(target)) {
            bail!("{unknown} is none of {}", all.join(", "));
        }
        let targets = if self.targets.is_empty() { all } else { self.targets };
        let seconds = self.seconds.unwrap_or(if self.long { LONG } else { SHORT });
        let Outcome { passed, failed } = fuzz(targets, Bound::Seconds(seconds), self.keep)?;
        println!("{passed} passed, {} failed, 0 skipped", failed.len());
        if !failed.is_empty() {
            let names: Vec<String> = failed.into_iter().map(|failure| failure.name).collect();
            bail!("failed: {}", names.join(", "));
        }
        Ok(())
    }
}

/// Returns the targets that the tests run: all without a filter or with `fuzz`, else the one of that name.
///
/// # Errors
///
/// Fails when the corpus cannot be read.
pub(crate) fn targets_of_tests(filter: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut all = targets(&root()?.join(CORPUS))?;
    all.retain(|target| filter.is_none_or(|filter| filter == ALL || filter == target));
    Ok(all)
}

/// Runs these targets as the tests do.
///
/// # Errors
///
/// Fails when the targets cannot be built or started.
pub(crate) fn short_run(targets: Vec<String>) -> anyhow::Result<Outcome> {
    fuzz(targets, Bound::Inputs(TESTED), false)
}

fn fuzz(targets: Vec<String>, bound: Bound, keep: bool) -> anyhow::Result<Outcome> {
    prerequisites::ensure_for_fuzzing()?;
    let root = root()?;
    build(&root)?;
    let folder = target_folder()?;
    let program = folder.join("debug/examples/fuzz");
    Fuzzer { program, root, found: folder.join("fuzz"), bound, keep }.run_all(targets)
}

/// Returns the names of all targets.
fn targets(corpus: &Path) -> anyhow::Result<Vec<String>> {
    let folders = fs::read_dir(corpus).with_context(|| format!("cannot read {}", corpus.display()))?;
    let mut names = folders
        .map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Builds the program with all targets. Only the workspace's crates are compiled again, with the counters
/// that libFuzzer reads; dependencies are shared with the tests.
fn build(root: &Path) -> anyhow::Result<()> {
    let mut build = cargo()?;
    build.args(["build", "--workspace", "--example", "fuzz"]);
    build.args(["--features", "evacuation-fuzz/libfuzzer"]);
    run(build.env("RUSTC_WORKSPACE_WRAPPER", root.join("fuzz/instrument")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_the_corpus_is_a_target() -> anyhow::Result<()> {
        let names = targets(&root()?.join(CORPUS))?;
        assert!(names.contains(&"label_selector".to_owned()), "{names:?}");
        Ok(())
    }

    #[test]
    fn a_filter_of_the_tests_runs_the_fuzzer_only_when_it_names_a_target_or_all() -> anyhow::Result<()> {
        let all = targets_of_tests(None)?;
        assert_eq!(targets_of_tests(Some("fuzz"))?, all);
        assert_eq!(targets_of_tests(Some("body_yaml"))?, ["body_yaml"]);
        for other in ["body", "rule_1", "a_filter_of_the_tests"] {
            assert_eq!(targets_of_tests(Some(other))?, Vec::<String>::new(), "{other}");
        }
        Ok(())
    }
}
