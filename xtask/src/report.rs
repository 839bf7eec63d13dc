//! Report of a run: one table of its stages, and each failure with the command that repeats just it. Stages
//! that run at the same time are in it one after the other, and the total is less than their sum.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::bail;

/// Maximum number of lines that are shown of a failure.
const LINES: usize = 12;
/// Maximum number of failures that are shown of a stage.
const SHOWN: usize = 20;

/// A test, a check or a target that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    /// First lines of the cause.
    pub(crate) lines: Vec<String>,
    /// Command that runs just this.
    pub(crate) again: String,
}

/// One stage of a run.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    took: Duration,
    failures: Vec<Failure>,
}

/// Stages of a run, in their order.
#[derive(Debug)]
pub(crate) struct Report {
    began: Instant,
    stages: Vec<Stage>,
}

impl Default for Report {
    fn default() -> Self {
        Self { began: Instant::now(), stages: Vec::new() }
    }
}

impl Report {
    /// Runs a stage and keeps its time and its failures. An error is a failure of the stage itself, which
    /// the command `again` repeats.
    ///
    /// Returns what the stage returned. None when it ended with an error.
    pub(crate) fn stage<T>(
        &mut self,
        name: &'static str,
        again: &str,
        work: impl FnOnce(&mut Vec<Failure>) -> anyhow::Result<T>,
    ) -> Option<T> {
        println!("== {name}");
        let (began, mut failures) = (Instant::now(), Vec::new());
        let result = work(&mut failures);
        let returned = match result {
            Ok(returned) => Some(returned),
            Err(error) => {
                let lines = format!("{error:#}").lines().map(str::to_owned).collect();
                failures.push(Failure { name: name.to_owned(), lines, again: again.to_owned() });
                None
            }
        };
        self.stages.push(Stage { name, took: began.elapsed(), failures });
        returned
    }

    /// Adds the stages of a report that was made beside this one.
    pub(crate) fn append(&mut self, other: Self) {
        self.stages.extend(other.stages);
    }

    /// Returns true when something has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.stages.iter().any(|stage| !stage.failures.is_empty())
    }

    /// Prints the table and then `last`, such as the number of tests.
    ///
    /// # Errors
    ///
    /// Names the stages that failed.
    pub(crate) fn end(&self, last: &str) -> anyhow::Result<()> {
        println!("\n{self}{last}");
        let failed: Vec<&str> =
            self.stages.iter().filter(|stage| !stage.failures.is_empty()).map(|stage| stage.name).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>7}  failed", "stage", "seconds")?;
        for Stage { name, took, failures } in &self.stages {
            writeln!(f, "{name:<24} {:>7}  {}", took.as_secs(), failures.len())?;
        }
        writeln!(f, "{:<24} {:>7}", "total", self.began.elapsed().as_secs())?;
        for Stage { name, failures, .. } in self.stages.iter().filter(|stage| !stage.failures.is_empty()) {
            for failure in failures.iter().take(SHOWN) {
                writeln!(f, "\nFAILED {name}: {}", failure.name)?;
                for line in failure.lines.iter().take(LINES) {
                    writeln!(f, "    {line}")?;
                }
                if failure.lines.len() > LINES {
                    writeln!(f, "    ... and {} lines more", failure.lines.len() - LINES)?;
                }
                writeln!(f, "    again: {}", failure.again)?;
            }
            if failures.len() > SHOWN {
                writeln!(f, "\n... and {} failures more in {name}", failures.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(name: &str, lines: usize) -> Failure {
        let lines = (0..lines).map(|n| format!("line {n}")).collect();
        Failure { name: name.to_owned(), lines, again: format!("cargo xtask test {name}") }
    }

    #[test]
    fn the_table_has_each_stage_and_each_failure_with_its_first_lines_and_its_command() {
        let mut report = Report::default();
        assert_eq!(report.stage("format", "cargo fmt --all", |_| Ok(7)), Some(7));
        assert!(!report.has_failed());
        report.stage("tests", "cargo xtask test", |failures| {
            failures.extend([failure("drain::a", 2), failure("drain::b", 14)]);
            Ok(())
        });
        let ended = report
            .stage::<()>("licences", "cargo xtask check", |_| Err(anyhow::anyhow!("gone").context("deny")));
        assert_eq!(ended, None);
        assert_eq!(
            report.to_string(),
            "stage                    seconds  failed\n\
             format                         0  0\n\
             tests                          0  2\n\
             licences                       0  1\n\
             total                          0\n\
             \n\
             FAILED tests: drain::a\n    line 0\n    line 1\n    again: cargo xtask test drain::a\n\
             \n\
             FAILED tests: drain::b\n    line 0\n    line 1\n    line 2\n    line 3\n    line 4\n    line 5\n    \
             line 6\n    line 7\n    line 8\n    line 9\n    line 10\n    line 11\n    ... and 2 lines more\n    \
             again: cargo xtask test drain::b\n\
             \n\
             FAILED licences: licences\n    deny: gone\n    again: cargo xtask check\n"
        );
        let error = report.end("2 passed").map_err(|error| error.to_string());
        assert_eq!(error, Err("failed: tests, licences".to_owned()));
    }

    #[test]
    fn a_stage_with_hundreds_of_failures_does_not_hide_the_others() {
        let mut report = Report::default();
        report.stage("tests", "", |failures| {
            failures.extend((0..300).map(|n| failure(&format!("t{n}"), 1)));
            Ok(())
        });
        let text = report.to_string();
        assert!(text.contains("FAILED tests: t19\n") && !text.contains("FAILED tests: t20\n"), "{text}");
        assert!(text.ends_with("\n... and 280 failures more in tests\n"), "{text}");
    }
}
