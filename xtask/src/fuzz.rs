//! `cargo xtask fuzz`

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    build::target_folder,
    command::{cargo, root, run},
    prerequisites,
};

/// Seconds of each target in the short run.
const SHORT: u64 = 20;
/// Seconds of each target in the long run.
const LONG: u64 = 600;
/// Maximum size of an input in bytes.
const INPUT_BYTES: usize = 4096;
/// Maximum seconds of one input.
const INPUT_SECONDS: u64 = 10;
/// Maximum memory of a target in MiB.
const MEMORY_MIB: u64 = 2048;
/// Folder of the inputs that earlier runs found, one folder for each target.
const CORPUS: &str = "fuzz/corpus";

/// Feed the parsers of outside bytes with generated inputs, as many targets at once as there are cores.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// 10 minutes a target instead of 20 seconds.
    #[arg(long)]
    long: bool,
    /// Seconds for each target.
    #[arg(long, conflicts_with = "long")]
    seconds: Option<u64>,
    /// Add the inputs that reach new code to the corpus in the repository.
    #[arg(long)]
    keep: bool,
    /// Only this target: a folder in fuzz/corpus.
    target: Option<String>,
}

impl Fuzz {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure_for_fuzzing()?;
        let seconds = self.seconds.unwrap_or(if self.long { LONG } else { SHORT });
        let root = root()?;
        let targets = match self.target {
            Some(target) => vec![target],
            None => targets(&root.join(CORPUS))?,
        };
        let program = build(&root)?;
        let fuzzer = Fuzzer { program, root, found: target_folder()?.join("fuzz"), seconds, keep: self.keep };
        let failed = fuzzer.run_all(targets)?;
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
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
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut build = cargo()?;
    build.args(["build", "--workspace", "--bin", "fuzz", "--features", "evacuation-fuzz/libfuzzer"]);
    run(build.env("RUSTC_WORKSPACE_WRAPPER", root.join("fuzz/instrument")))?;
    Ok(target_folder()?.join("debug/fuzz"))
}

struct Fuzzer {
    program: PathBuf,
    root: PathBuf,
    /// Folder of the inputs that this run finds.
    found: PathBuf,
    seconds: u64,
    keep: bool,
}

impl Fuzzer {
    /// Runs every target, and returns the names of those that failed.
    fn run_all(&self, targets: Vec<String>) -> anyhow::Result<Vec<String>> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (left, failed) = (Mutex::new(targets.into_iter()), Mutex::new(Vec::new()));
        let work = || -> anyhow::Result<()> {
            loop {
                let next = left.lock().ok().and_then(|mut left| left.next());
                let Some(target) = next else { return Ok(()) };
                if !self.run(&target)?
                    && let Ok(mut failed) = failed.lock()
                {
                    failed.push(target);
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().map_err(|_| anyhow::anyhow!("a worker of the fuzzer panicked"))?
            })
        })?;
        Ok(failed.into_inner().unwrap_or_default())
    }

    /// Runs one target. False when an input failed: libFuzzer writes it beside the log and names it.
    fn run(&self, target: &str) -> anyhow::Result<bool> {
        let (corpus, found) = (self.root.join(CORPUS).join(target), self.found.join(target));
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let log = self.found.join(format!("{target}.log"));
        let mut fuzz = self.command(target, &log)?;
        fuzz.arg(format!("-max_total_time={}", self.seconds))
            .arg(format!("-max_len={INPUT_BYTES}"))
            .arg(format!("-artifact_prefix={}/{target}-", self.found.display()))
            .arg("-print_final_stats=1")
            .args([&found, &corpus]);
        let passed = fuzz.status().with_context(|| format!("{target} did not start"))?.success();
        let lines = BufReader::new(File::open(&log)?).lines().collect::<io::Result<Vec<_>>>();
        let lines = lines.unwrap_or_default();
        let executions = lines.iter().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let executions = executions.unwrap_or("? ").trim();
        println!("{target}: {}, {executions} executions", if passed { "passed" } else { "FAILED" });
        if !passed {
            let failure =
                lines.iter().skip_while(|line| !line.contains("panicked") && !line.contains("ERROR"));
            failure.take(40).for_each(|line| println!("    {line}"));
            println!("    all output: {}", log.display());
        }
        if passed && self.keep {
            let mut merge = self.command(target, &self.found.join(format!("{target}.merge.log")))?;
            // Inputs that reach new branches, not those that only take them more often.
            let sparingly = ["-merge=1", "-use_counters=0", "-use_cmp=0", "-max_len=512"];
            run(merge.args(sparingly).args([&corpus, &found]))?;
        }
        Ok(passed)
    }

    fn command(&self, target: &str, log: &Path) -> anyhow::Result<Command> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&self.program);
        command
            .env("FUZZ_TARGET", target)
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
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
}
