//! Runs of libFuzzer, as many at once as there are cores.

use std::{
    fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use anyhow::{Context, bail};

use crate::{
    bounded::{Ended, run_within},
    fuzz_corpus::{replace_found, richest, words_of_seeds},
    report::Failure,
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
/// Maximum seconds of one input. libFuzzer measures the wall clock, and the machine can be busy.
const INPUT_SECONDS: u64 = 30;
/// Seconds of the processor that a target may take beyond its seconds, or for a fixed number of inputs. The
/// slowest target took 20 s.
const SPARE_SECONDS: u64 = 300;
/// Maximum time of a target beyond its seconds, and of the comparison of its inputs: the machine can be busy
/// with the tests, which come first.
const LIMIT: Duration = Duration::from_hours(3);
/// Maximum memory of a target in MiB.
const MEMORY_MIB: u64 = 2048;
/// Maximum number of lines that are printed of the log of a target that failed.
const SHOWN: usize = 40;
/// Starts a program with the stack of a server's thread, 2 MiB, and that many seconds of the processor.
const LIMITED: &str = r#"ulimit -s 2048 && ulimit -t "$1" && shift && exec "$0" "$@""#;

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Targets with an input that failed.
    pub(crate) failed: Vec<Failure>,
}

/// End of a target's run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// After this many seconds. Each run finds other inputs.
    Seconds(u64),
    /// After the corpus and this many inputs made from it. Each run makes the same inputs, whatever the
    /// machine's load is.
    Inputs(usize),
}

/// Runner of targets.
pub(crate) struct Fuzzer {
    pub(crate) program: PathBuf,
    /// The project's root.
    pub(crate) root: PathBuf,
    /// Folder of the inputs that this run finds.
    pub(crate) found: PathBuf,
    pub(crate) bound: Bound,
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
                let failure = self.run(&target)?;
                if let Ok(mut outcome) = outcome.lock() {
                    outcome.passed += usize::from(failure.is_none());
                    outcome.failed.extend(failure);
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

    /// Runs one target. Returns the failure when an input failed: libFuzzer writes that input beside the log.
    fn run(&self, target: &str) -> anyhow::Result<Option<Failure>> {
        let (corpus, found) = (self.root.join(CORPUS).join(target), self.found.join(target));
        if matches!(self.bound, Bound::Inputs(_)) && found.exists() {
            // What an earlier run found would be the beginning of other inputs.
            fs::remove_dir_all(&found).with_context(|| format!("cannot remove {}", found.display()))?;
        }
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let words = self.found.join(format!("{target}.words"));
        fs::write(&words, words_of_seeds(&corpus)?)?;
        let seconds = if let Bound::Seconds(seconds) = self.bound { seconds } else { 0 };
        let mut fuzz = self.command(target, seconds + SPARE_SECONDS);
        match self.bound {
            Bound::Seconds(seconds) => {
                fuzz.arg(format!("-max_total_time={seconds}")).args([&found, &corpus]);
            }
            Bound::Inputs(made) => {
                // In the order of their names: that of a folder differs between checkouts.
                let mut known = fs::read_dir(&corpus)?.map(|entry| Ok(entry?.path().display().to_string()));
                let mut known = known.by_ref().collect::<io::Result<Vec<_>>>()?;
                known.sort();
                let seeds = self.found.join(format!("{target}.seeds"));
                fs::write(&seeds, known.join(","))?;
                fuzz.arg(format!("-runs={}", known.len() + made))
                    .args(["-seed=1", "-reload=0"])
                    .arg(format!("-seed_inputs=@{}", seeds.display()))
                    .arg(&found);
            }
        }
        fuzz.arg(format!("-max_len={INPUT_BYTES}"))
            .arg(format!("-dict={}", words.display()))
            .arg(format!("-artifact_prefix={}/{target}-", self.found.display()))
            .arg("-print_final_stats=1");
        let ended = run_within(&mut fuzz, Duration::from_secs(seconds) + LIMIT)?;
        let log = self.found.join(format!("{target}.log"));
        fs::write(&log, &ended.text).with_context(|| format!("cannot write {}", log.display()))?;
        let failure = report(target, &ended, &log);
        let passed = failure.is_none();
        if passed && self.keep {
            self.keep(target, &corpus, &found)?;
        }
        Ok(failure)
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
        let mut merge = self.command(target, LIMIT.as_secs());
        // Inputs that reach new branches, not those that only take them more often.
        merge.args(["-set_cover_merge=1", "-use_counters=0", "-use_cmp=0"]);
        merge.arg(format!("-max_len={KEPT_BYTES}"));
        merge.arg(format!("-merge_control_file={}", control.display()));
        let ended = run_within(merge.args([merged.as_path(), corpus, found]), LIMIT)?;
        if !ended.end.is_success() {
            bail!("the inputs of {target} were not merged: {}\n{}", ended.end, ended.text);
        }
        replace_found(corpus, &richest(&fs::read_to_string(&control)?, KEPT)?)
    }

    /// Returns the command that runs a target for at most so many seconds of the processor.
    fn command(&self, target: &str, seconds: u64) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", LIMITED])
            .arg(&self.program)
            .arg(seconds.to_string())
            .env("FUZZ_TARGET", target)
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .stdin(Stdio::null());
        command
    }
}

/// Prints the result of a target. Returns the failure with the end of its log when an input failed.
fn report(target: &str, ended: &Ended, log: &Path) -> Option<Failure> {
    let lines: Vec<&str> = ended.text.lines().collect();
    let executions = lines.iter().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = executions.unwrap_or("?").trim();
    println!("{target}: {}, {executions} executions, {:.1} s", ended.end, ended.took.as_secs_f64());
    if ended.end.is_success() {
        return None;
    }
    let cause = lines.iter().position(|line| line.contains("panicked") || line.contains("ERROR"));
    let shown = lines.iter().skip(cause.unwrap_or(lines.len().saturating_sub(SHOWN))).take(SHOWN);
    let first = [ended.end.to_string(), format!("all output: {}", log.display())];
    let lines: Vec<String> = first.into_iter().chain(shown.map(ToString::to_string)).collect();
    println!("    {}", lines.join("\n    "));
    Some(Failure { name: target.to_owned(), lines, again: format!("cargo xtask test {target}") })
}
