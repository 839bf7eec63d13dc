//! Test programs that cargo built, and their runs side by side.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::command::cargo;

/// Tests of an end-to-end suite that run at once: most of their time they wait for the cluster.
const END_TO_END_THREADS: &str = "6";
/// Tests of a suite of the lane [`Lane::Alone`] that run at once: while six control planes start, a gateway
/// takes longer than the second that it has for a call.
const ALONE_THREADS: &str = "3";

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    name: String,
    program: PathBuf,
    /// The package's folder, in which cargo runs it.
    folder: PathBuf,
    lane: Lane,
}

/// The suites of one lane run one after another. The lanes with a control plane run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// No control plane. This lane runs before the others, so that no suite misses its time limits.
    Quick,
    /// Scenarios on a shared platform.
    Scenarios,
    /// Scenarios that disturb their platforms.
    Faults,
    /// Scenarios whose outcome depends on a limit of the kube-apiserver's own, such as the second that it
    /// gives a webhook. This lane runs after the others, because they use the whole CPU.
    Alone,
    /// Programs of others, which take long to build. This lane runs only when it is asked for.
    Long,
}

/// End-to-end suites of the lane [`Lane::Faults`].
const FAULTS: &[&str] = &["bridges", "clocks", "outages"];
/// End-to-end suites of the lane [`Lane::Alone`].
const ALONE: &[&str] = &["attacks", "gateway"];
/// End-to-end suites of the lane [`Lane::Long`].
const LONG: &[&str] = &["callers", "go_clients"];

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) tally: Tally,
    pub(crate) failed: Vec<String>,
}

/// The numbers that the test programs reported, added up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Adds a line such as `test result: ok. 6 passed; 0 failed; 1 ignored; ...`; other lines change nothing.
    pub(crate) fn add(&mut self, line: &str) {
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

/// Builds all test programs.
///
/// # Errors
///
/// Fails when cargo fails.
pub(crate) fn build() -> anyhow::Result<Vec<Suite>> {
    let mut build = cargo()?;
    build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().context("cargo test did not start")?;
    if !output.status.success() {
        bail!("cargo test --no-run failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(suite).collect())
}

/// The test program that a line of cargo's describes, if any.
fn suite(message: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(message).ok()?;
    let program = PathBuf::from(message.get("executable")?.as_str()?);
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.pointer("/target/name")?.as_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let lane = match (folder.ends_with("tests/e2e"), kind) {
        (true, "test") if FAULTS.contains(&target) => Lane::Faults,
        (true, "test") if ALONE.contains(&target) => Lane::Alone,
        (true, "test") if LONG.contains(&target) => Lane::Long,
        (true, "test") => Lane::Scenarios,
        _ => Lane::Quick,
    };
    let title = format!("{} {target} ({kind})", folder.file_name()?.to_string_lossy());
    is_test.then_some(Suite { name: title, program, folder, lane })
}

/// Runs the suites, and prints the output of each when it ends.
///
/// # Errors
///
/// Fails when one cannot be started.
pub(crate) fn run(
    suites: &[Suite],
    long: bool,
    filter: Option<&str>,
    environment: &[(&str, &Path)],
) -> anyhow::Result<Results> {
    let results = Mutex::new(Results::default());
    let run_lane = |lane| {
        suites
            .iter()
            .filter(|suite| suite.lane == lane)
            .try_for_each(|suite| suite.run(filter, environment, &results))
    };
    run_lane(Lane::Quick)?;
    thread::scope(|scope| {
        let lanes = [Lane::Faults, Lane::Scenarios].map(|lane| {
            let run_lane = &run_lane;
            scope.spawn(move || run_lane(lane))
        });
        for lane in lanes {
            lane.join().map_err(|_| anyhow::anyhow!("a lane of tests panicked"))??;
        }
        anyhow::Ok(())
    })?;
    run_lane(Lane::Alone)?;
    if long {
        run_lane(Lane::Long)?;
    }
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Suite {
    fn run(
        &self,
        filter: Option<&str>,
        environment: &[(&str, &Path)],
        results: &Mutex<Results>,
    ) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        match self.lane {
            Lane::Quick => {}
            Lane::Alone => {
                command.env("RUST_TEST_THREADS", ALONE_THREADS);
            }
            Lane::Scenarios | Lane::Faults | Lane::Long => {
                command.env("RUST_TEST_THREADS", END_TO_END_THREADS);
            }
        }
        let (output, log) = std::io::pipe()?;
        command
            .args(filter)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let began = Instant::now();
        let mut child = command.spawn().with_context(|| format!("{} did not start", self.name))?;
        // The program then holds the only other ends of the pipe.
        drop(command);
        let text = std::io::read_to_string(output)?;
        let status = child.wait()?;
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines() {
            results.tally.add(line);
        }
        println!("== {}: {status}, {} s\n{text}", self.name, began.elapsed().as_secs());
        if !status.success() {
            results.failed.push(self.name.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_test_programs_are_added_up() {
        let mut tally = Tally::default();
        tally.add(
            "test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        tally.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.2s");
        tally.add("test a::b ... ok");
        assert_eq!(tally, Tally { passed: 8, failed: 3, ignored: 1 });
    }

    #[test]
    fn a_test_program_is_found_in_what_cargo_says_and_has_its_lane() {
        let line = |folder: &str, kind: &str, name: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": format!("/p/{folder}/Cargo.toml"),
                "target": {"kind": [kind], "name": name}, "profile": {"test": test}, "executable": "/t/x",
            })
            .to_string()
        };
        let lane_of = |message: &str| suite(message).map(|suite| suite.lane);
        assert_eq!(lane_of(&line("tests/e2e", "test", "outages", true)), Some(Lane::Faults));
        assert_eq!(lane_of(&line("tests/e2e", "test", "kubectl", true)), Some(Lane::Scenarios));
        assert_eq!(lane_of(&line("tests/e2e", "test", "gateway", true)), Some(Lane::Alone));
        assert_eq!(lane_of(&line("tests/e2e", "test", "clients", true)), Some(Lane::Scenarios));
        assert_eq!(lane_of(&line("tests/e2e", "test", "callers", true)), Some(Lane::Long));
        assert_eq!(lane_of(&line("tests/e2e", "test", "go_clients", true)), Some(Lane::Long));
        assert_eq!(lane_of(&line("tests/e2e", "lib", "evacuation_e2e", true)), Some(Lane::Quick));
        assert_eq!(lane_of(&line("apiserver", "test", "rules", true)), Some(Lane::Quick));
        assert_eq!(lane_of(&line("apiserver", "bin", "evacuation-apiserver", false)), None);
        assert_eq!(lane_of(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
