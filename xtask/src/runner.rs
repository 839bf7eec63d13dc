//! Runs of test programs.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use crate::{
    bounded::{End, Ended},
    libtest::{self, Tally},
    report::Failure,
    scratch::{Run, run_in_scratch},
    selection::Selection,
    suites::{Lane, Suite},
};

/// Maximum number of lines of a program that ended without naming a test.
const LAST_LINES: usize = 10;

/// Runner of suites.
pub(crate) struct Runner<'a> {
    pub(crate) suites: &'a [Suite],
    pub(crate) selection: Selection<'a>,
    pub(crate) environment: &'a [(&'a str, &'a Path)],
    /// Factor of the limits of time.
    pub(crate) patience: u32,
}

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) tally: Tally,
    pub(crate) failures: Vec<Failure>,
}

impl Runner<'_> {
    /// Runs the selected suites of a lane in their order, this many at once, and prints the output of each
    /// when it ends.
    pub(crate) fn run(&self, lane: Lane, at_once: usize) -> Results {
        let left =
            Mutex::new(self.suites.iter().filter(|suite| suite.lane == lane && self.selection.has(suite)));
        let results = Mutex::new(Results::default());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some(suite) = next() {
                self.run_suite(suite, &results);
            }
        };
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(work);
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the titles of the suites that the selection leaves out.
    pub(crate) fn left_out(&self) -> Vec<&str> {
        let left = self.suites.iter().filter(|suite| suite.lane != Lane::Long && !self.selection.has(suite));
        left.map(|suite| suite.title.as_str()).collect()
    }

    fn run_suite(&self, suite: &Suite, results: &Mutex<Results>) {
        let (mut command, limit) = suite.command(self.selection.filter(), self.environment);
        let run = run_in_scratch(&suite.name, &mut command, limit * self.patience);
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        let again = |test: Option<&str>| suite.again(test);
        match run {
            Ok(Run { ended, left }) => {
                println!("== {}: {}, {} s\n{}", suite.title, ended.end, ended.took.as_secs(), ended.text);
                results.add(&suite.name, &ended, again);
                results.add_left(&suite.name, left, again(None));
            }
            Err(error) => results.failures.push(Failure {
                name: suite.name.clone(),
                lines: vec![format!("{error:#}")],
                again: again(None),
            }),
        }
    }
}

impl Results {
    /// Adds the results of another run.
    pub(crate) fn append(&mut self, other: Self) {
        self.tally.add_all(&other.tally);
        self.failures.extend(other.failures);
    }

    /// Adds the results of a test program. `again` is the command that repeats one of its tests, or all.
    pub(crate) fn add(&mut self, suite: &str, ended: &Ended, again: impl Fn(Option<&str>) -> String) {
        let before = self.tally.failed;
        ended.text.lines().for_each(|line| self.tally.add(line));
        let failures = failures(suite, ended, again);
        // A program that was killed or crashed has no numbers.
        self.tally.failed = self.tally.failed.max(before + failures.len() as u64);
        self.failures.extend(failures);
    }

    /// Adds what a suite left behind as one failure.
    fn add_left(&mut self, suite: &str, left: Vec<String>, again: String) {
        if !left.is_empty() {
            self.tally.failed += 1;
            self.failures.push(Failure { name: format!("{suite}: left behind"), lines: left, again });
        }
    }
}

/// Returns the failures of a test program: its tests, or itself when it names none.
fn failures(suite: &str, ended: &Ended, again: impl Fn(Option<&str>) -> String) -> Vec<Failure> {
    if ended.end.is_success() {
        return Vec::new();
    }
    let mut tests = libtest::failed(&ended.text);
    if ended.end == End::Killed {
        tests.extend(libtest::running(&ended.text));
    }
    let mut failures: Vec<Failure> = tests
        .into_iter()
        .map(|libtest::Failed { test, lines }| Failure {
            name: format!("{suite}::{test}"),
            again: again(Some(&test)),
            lines,
        })
        .collect();
    if failures.is_empty() {
        let lines: Vec<&str> = ended.text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
        let lines =
            std::iter::once(ended.end.to_string()).chain(last.iter().map(ToString::to_string)).collect();
        failures.push(Failure { name: suite.to_owned(), lines, again: again(None) });
    }
    failures
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;
    use crate::bounded::run_within;

    /// Runs a shell as a test program. Returns the number of failures, the name of each and its first line.
    fn results(script: &str, limit: Duration) -> anyhow::Result<(u64, Vec<(String, String)>)> {
        let mut program = Command::new("sh");
        let ended = run_within(program.args(["-c", script]), limit)?;
        let mut results = Results::default();
        results.add("drain", &ended, |test| test.unwrap_or("all").to_owned());
        let first = |f: Failure| (f.name, f.lines.into_iter().next().unwrap_or_default());
        Ok((results.tally.failed, results.failures.into_iter().map(first).collect()))
    }

    fn pair(name: &str, line: &str) -> (String, String) {
        (name.to_owned(), line.to_owned())
    }

    #[test]
    fn a_program_that_fails_names_its_tests_or_itself() -> anyhow::Result<()> {
        let minute = Duration::from_mins(1);
        let failed =
            "printf 'failures:\\n\\n---- a::b stdout ----\\nwrong\\n\\nfailures:\\n    a::b\\n\\n'; exit 101";
        assert_eq!(results(failed, minute)?, (1, vec![pair("drain::a::b", "wrong")]));
        assert_eq!(results("kill -SEGV $$", minute)?, (1, vec![pair("drain", "signal: 11 (SIGSEGV)")]));
        assert_eq!(results("exit 0", minute)?, (0, vec![]));
        Ok(())
    }

    #[test]
    fn what_a_suite_leaves_behind_is_a_failure() {
        let mut results = Results::default();
        results.add_left("drain", Vec::new(), String::new());
        assert_eq!((results.tally.failed, results.failures.len()), (0, 0));
        results.add_left("drain", vec!["still runs: process 7: etcd".to_owned()], "again".to_owned());
        assert_eq!((results.tally.failed, results.failures.len()), (1, 1));
    }

    #[test]
    fn a_program_that_hangs_names_the_tests_that_run_and_those_that_had_failed() -> anyhow::Result<()> {
        let second = Duration::from_secs(1);
        let hangs = "echo 'test a::a ... FAILED'; echo 'test a::b has been running for over 60 seconds'; \
                     exec sleep 1000";
        let names = vec![
            pair("drain::a::a", "failed before the program was killed"),
            pair("drain::a::b", "still running at the limit of time"),
        ];
        assert_eq!(results(hangs, second)?, (2, names));
        assert_eq!(
            results("exec sleep 1000", second)?,
            (1, vec![pair("drain", "killed at its limit of time")])
        );
        Ok(())
    }
}
