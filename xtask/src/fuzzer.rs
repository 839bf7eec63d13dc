//! Runs of libFuzzer, as many at once as there are cores.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::Context;

use crate::{
    command::run,
    fuzz_corpus::{replace_found, richest, words_of_seeds},
};

/// Folder of the inputs that earlier runs found, one folder for each target.
pub(crate) const CORPUS: &str = "fuzz/corpus";
/// Maximum size of an input in bytes.
const INPUT_BYTES: usize = 4096;
/// Maximum size of an input in the corpus, in bytes.
const KEPT_BYTES: usize = 1024;
/// Maximum number of a target's inputs in the corpus, seeds aside: more would be hundreds of files that
/// nobody reads, and a run finds them again within seconds.
const KEPT: usize = 5;
/// Maximum seconds of one input.
const INPUT_SECONDS: u64 = 10;
/// Maximum memory of a target in MiB.
const MEMORY_MIB: u64 = 2048;
/// Maximum number of lines that are printed of the log of a target that failed.
const SHOWN: usize = 40;
/// Starts a program with the stack of a server's thread, 2 MiB.
const SMALL_STACK: &str = r#"ulimit -s 2048 && exec "$0" "$@""#;

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Targets with an input that failed.
    pub(crate) failed: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, 0 skipped", self.passed, self.failed.len())
    }
}

/// Runner of targets.
pub(crate) struct Fuzzer {
    pub(crate) program: PathBuf,
    /// The project's root.
    pub(crate) root: PathBuf,
    /// Folder of the inputs that this run finds.
    pub(crate) found: PathBuf,
    /// Seconds of each target.
    pub(crate) seconds: u64,
    /// True when the corpus in the repository is replaced.
    pub(crate) keep: bool,
}

impl Fuzzer {
    /// Runs every target.
    ///
    /// # Errors
    ///
    /// Fails when a target does not start. Inputs that fail are part of the outcome.
    pub(crate) fn run_all(&self, targets: Vec<String>) -> anyhow::Result<Outcome> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (left, outcome) = (Mutex::new(targets.into_iter()), Mutex::new(Outcome::default()));
        let work = || -> anyhow::Result<()> {
            loop {
                let next = left.lock().ok().and_then(|mut left| left.next());
                let Some(target) = next else { return Ok(()) };
                let passed = self.run(&target)?;
                if let Ok(mut outcome) = outcome.lock() {
                    if passed {
                        outcome.passed += 1;
                    } else {
                        outcome.failed.push(target);
                    }
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().map_err(|_| anyhow::anyhow!("a worker of the fuzzer panicked"))?
            })
        })?;
        Ok(outcome.into_inner().unwrap_or_default())
    }

    /// Runs one target. False when an input failed: libFuzzer writes it beside the log and names it.
    fn run(&self, target: &str) -> anyhow::Result<bool> {
        let (corpus, found) = (self.root.join(CORPUS).join(target), self.found.join(target));
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let words = self.found.join(format!("{target}.words"));
        fs::write(&words, words_of_seeds(&corpus)?)?;
        let log = self.found.join(format!("{target}.log"));
        let mut fuzz = self.command(target, &log)?;
        fuzz.arg(format!("-max_total_time={}", self.seconds))
            .arg(format!("-max_len={INPUT_BYTES}"))
            .arg(format!("-dict={}", words.display()))
            .arg(format!("-artifact_prefix={}/{target}-", self.found.display()))
            .arg("-print_final_stats=1")
            .args([&found, &corpus]);
        let passed = fuzz.status().with_context(|| format!("{target} did not start"))?.success();
        report(target, passed, &log)?;
        if passed && self.keep {
            self.keep(target, &corpus, &found)?;
        }
        Ok(passed)
    }

    /// Replaces the inputs in the repository.
    fn keep(&self, target: &str, corpus: &Path, found: &Path) -> anyhow::Result<()> {
        let merged = self.found.join(format!("{target}.merged"));
        let control = self.found.join(format!("{target}.control"));
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        // libFuzzer would go on with a merge that was interrupted.
        fs::write(&control, "")?;
        let mut merge = self.command(target, &self.found.join(format!("{target}.merge.log")))?;
        // Inputs that reach new branches, not those that only take them more often.
        merge.args(["-set_cover_merge=1", "-use_counters=0", "-use_cmp=0"]);
        merge.arg(format!("-max_len={KEPT_BYTES}"));
        merge.arg(format!("-merge_control_file={}", control.display()));
        run(merge.args([merged.as_path(), corpus, found]))?;
        replace_found(corpus, &richest(&fs::read_to_string(&control)?, KEPT)?)
    }

    fn command(&self, target: &str, log: &Path) -> anyhow::Result<Command> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", SMALL_STACK])
            .arg(&self.program)
            .env("FUZZ_TARGET", target)
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

/// Prints the result of a target, with the end of its log when an input failed.
fn report(target: &str, passed: bool, log: &Path) -> anyhow::Result<()> {
    let lines = BufReader::new(File::open(log)?).lines().collect::<io::Result<Vec<_>>>();
    let lines = lines.unwrap_or_default();
    let executions = lines.iter().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = executions.unwrap_or("?").trim();
    println!("{target}: {}, {executions} executions", if passed { "passed" } else { "FAILED" });
    if !passed {
        let cause = lines.iter().position(|line| line.contains("panicked") || line.contains("ERROR"));
        let shown = lines.iter().skip(cause.unwrap_or(lines.len().saturating_sub(SHOWN)));
        shown.take(SHOWN).for_each(|line| println!("    {line}"));
        println!("    all output: {}", log.display());
    }
    Ok(())
}
