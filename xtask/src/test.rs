//! `cargo xtask test`

use std::{thread, time::Duration};

use anyhow::bail;
use clap::Args;

use crate::{
    bounded::run_within,
    build::build_tests,
    changed::Change,
    check,
    command::cargo,
    fuzz,
    libtest::Tally,
    load::Load,
    prerequisites,
    report::Report,
    runner::{Results, Runner},
    selection::Selection,
    suites::Lane,
};

/// Suites that run at once: each waits most of its time, for its cluster or for a limit of time.
const AT_ONCE: usize = 3;
/// Niceness of what runs beside the suites. It gets a quarter of a core that one other program wants, so that
/// it ends within its own limits on a busy machine.
const BESIDE: i32 = 5;
/// Maximum time of all doc tests.
const DOC_TESTS_LIMIT: Duration = Duration::from_mins(15);

/// Run all tests, and then a fixed number of inputs of each target of the fuzzer.
#[derive(Args)]
pub(crate) struct Test {
    /// Also the tests with real programs of others: descheduler, VPA updater, kubectl 1.32. They are built
    /// first, which takes 10 minutes or more.
    #[arg(long)]
    long: bool,
    /// Also all checks of `cargo xtask check`: those that take seconds come first and end the run when one
    /// fails, then the lints, the tests, and the others.
    #[arg(long)]
    checks: bool,
    /// Run the selected tests this often, such as a new test before it is handed in.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "filter")]
    repeat: u32,
    /// Busy loops beside the tests, each of which takes the time of a core. Limits of time grow with them.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    load: u32,
    /// Only the suites that a change can touch: of the working tree since the last common commit of HEAD and
    /// BASE, which is `main` if not given. Names what it leaves out, doc tests and the fuzzer among it.
    #[arg(long, value_name = "BASE", num_args = 0..=1, default_missing_value = "main", conflicts_with_all = ["filter", "long"])]
    changed: Option<String>,
    /// A suite, `SUITE::NAME` for tests of a suite, or a part of the names of tests in all suites. A suite
    /// is a test target such as `drain`, or a package's folder such as `protocol`. The fuzzer runs for `fuzz`
    /// or the name of a target.
    filter: Option<String>,
}

impl Test {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let change = self.changed.as_deref().map(Change::since).transpose()?;
        let filter = self.filter.as_deref();
        let targets = if change.is_some() { Vec::new() } else { fuzz::targets_of_tests(filter)? };
        let mut run = Run::default();
        if self.checks {
            check::cheap(&mut run.report);
            if run.report.has_failed() {
                return run.report.end("nothing else ran");
            }
        }
        prerequisites::ensure_for_tests()?;
        if self.checks {
            check::lints(&mut run.report);
        }
        let is_target = targets.iter().any(|target| Some(target.as_str()) == filter);
        let rest = |run: &mut Run| {
            run.fuzz(targets);
            if self.checks {
                check::rest(&mut run.report);
            }
        };
        let left_out = if is_target {
            rest(&mut run);
            None
        } else {
            run.tests(&self, change, rest)?
        };
        let Tally { passed, failed, ignored } = run.results.tally;
        if filter.is_some() && !run.report.has_failed() && passed == 0 && run.targets == 0 {
            bail!("no test and no target of the fuzzer has the name {}", filter.unwrap_or_default());
        }
        let left_out = left_out.map(|names| format!("left out: {names}\n")).unwrap_or_default();
        run.report.end(&format!("{left_out}{passed} passed, {failed} failed, {ignored} skipped"))
    }
}

/// A run of the tests.
#[derive(Default)]
struct Run {
    report: Report,
    results: Results,
    /// Number of the fuzzer's targets that ran.
    targets: usize,
}

impl Run {
    /// Builds and runs the tests, and `rest` beside them. Returns what was left out, for a
    /// change.
    ///
    /// # Errors
    ///
    /// Fails when the build does, with the report.
    fn tests(
        &mut self,
        options: &Test,
        change: Option<Change>,
        rest: impl FnOnce(&mut Self) + Send,
    ) -> anyhow::Result<Option<String>> {
        let filter = options.filter.as_deref();
        let Some((built, suites)) = self.report.stage("build", "cargo xtask test", |_| build_tests()) else {
            self.report.end("0 passed, 0 failed, 0 skipped")?;
            return Ok(None);
        };
        let environment =
            [("CONTROLPLANE_BIN", built.control_plane.as_path()), ("EVACUATION_BIN", &built.programs)];
        let selection = match (filter, change) {
            (Some(filter), _) => Selection::of(filter, &suites),
            (None, Some(change)) => Selection::Changed(change),
            (None, None) => Selection::All,
        };
        let patience = 1 + options.load.div_ceil(2);
        let runner = Runner { suites: &suites, selection, environment: &environment, patience };
        let load = Load::start(options.load);
        let has_doc_tests = matches!(runner.selection, Selection::All | Selection::Tests(_));
        self.beside(
            |run| {
                for _ in 0..options.repeat {
                    run.lane("tests without a cluster", &runner, Lane::Quick, AT_ONCE);
                    run.lane("end to end", &runner, Lane::EndToEnd, AT_ONCE);
                    if options.long {
                        run.lane("programs of others", &runner, Lane::Long, 1);
                    }
                    run.lane("end to end, timed", &runner, Lane::Timed, AT_ONCE);
                }
            },
            |run| {
                if has_doc_tests {
                    run.doc_tests(filter);
                }
                rest(run);
            },
        );
        drop(load);
        let is_change = matches!(runner.selection, Selection::Changed(_));
        Ok(is_change.then(|| format!("doc tests, fuzz, {}", runner.left_out().join(", "))))
    }

    /// Does both at the same time. `second` yields to `first` where both want a core.
    fn beside(&mut self, first: impl FnOnce(&mut Self), second: impl FnOnce(&mut Self) + Send) {
        let mut other = Self::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                // The niceness of a thread is that of the programs that it starts. Without it all goes on.
                let _ = rustix::process::nice(BESIDE);
                second(&mut other);
            });
            first(self);
        });
        let Self { report, results, targets } = other;
        self.report.append(report);
        self.results.append(results);
        self.targets += targets;
    }

    fn lane(&mut self, name: &'static str, runner: &Runner<'_>, lane: Lane, at_once: usize) {
        let results = &mut self.results;
        self.report.stage(name, "cargo xtask test", |failures| {
            results.append(runner.run(lane, at_once));
            failures.append(&mut results.failures);
            Ok(())
        });
    }

    /// Runs the examples of the documentation as one suite.
    fn doc_tests(&mut self, filter: Option<&str>) {
        let results = &mut self.results;
        self.report.stage("doc tests", "cargo test --workspace --doc", |failures| {
            let mut examples = cargo()?;
            examples.args(["test", "--workspace", "--doc", "--quiet", "--no-fail-fast"]).args(filter);
            let ended = run_within(&mut examples, DOC_TESTS_LIMIT)?;
            println!("{}", ended.text);
            results.add("doc", &ended, |test| {
                let test = test.map(|test| format!(" '{test}'")).unwrap_or_default();
                format!("cargo test --workspace --doc{test}")
            });
            failures.append(&mut results.failures);
            Ok(())
        });
    }

    fn fuzz(&mut self, targets: Vec<String>) {
        if targets.is_empty() {
            return;
        }
        self.targets = targets.len();
        self.report.stage("fuzz", "cargo xtask test fuzz", |failures| {
            let fuzzed = fuzz::short_run(targets)?;
            println!("{} targets passed, {} failed", fuzzed.passed, fuzzed.failed.len());
            failures.extend(fuzzed.failed);
            Ok(())
        });
    }
}
