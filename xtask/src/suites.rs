//! Test programs that cargo built.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::command::{cargo, root};

/// Tests of an end-to-end suite that run at once: most of their time they wait for the cluster.
const END_TO_END_THREADS: &str = "6";
/// Maximum time of a program of the lane [`Lane::Quick`]. The longest took 35 s on two cores.
const QUICK_LIMIT: Duration = Duration::from_mins(10);
/// Maximum time of an end-to-end suite. The longest took 9 minutes on two cores.
const END_TO_END_LIMIT: Duration = Duration::from_mins(30);

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    /// The word before `::` with which `cargo xtask test` selects it: the name of a test target, else that of
    /// the package's folder.
    pub(crate) name: String,
    /// Folder, target and kind.
    pub(crate) title: String,
    program: PathBuf,
    /// The package's folder, in which cargo runs it.
    folder: PathBuf,
    /// The same below the project's root.
    pub(crate) package: PathBuf,
    pub(crate) lane: Lane,
}

/// Suites that run in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// No cluster. Some suites at once: the long ones wait for limits of time.
    Quick,
    /// A cluster. Some suites at once: each waits most of its time.
    EndToEnd,
    /// Scenarios whose outcome depends on a limit of the kube-apiserver's own, such as the second that it
    /// gives a webhook. Fewer tests at once: while six control planes start, a gateway takes longer.
    Timed,
    /// Programs of others, which take long to build. This lane runs only when it is asked for.
    Long,
}

/// End-to-end suites of the lane [`Lane::Timed`], and the tests of each that run at once.
const TIMED: &[(&str, &str)] = &[("gateway", "3"), ("attacks", "2")];
/// End-to-end suites of the lane [`Lane::Long`].
const LONG: &[&str] = &["callers", "go_clients"];
/// The longest suites, which start first so that a stage does not end with a long one alone. The others
/// follow by name.
const LONGEST: &[&str] = &[
    "outages",
    "memory",
    "gateway",
    "drain",
    "silence",
    "clocks",
    "ways_out",
    "apps",
    "kubectl",
    "bridges",
    "http",
    "laws",
    "outage",
    "contract",
    "control_plane",
    "conformance",
];

/// Builds all test programs, and returns them in the order in which they run.
///
/// # Errors
///
/// Fails when cargo fails.
pub(crate) fn build() -> anyhow::Result<Vec<Suite>> {
    let root = root()?;
    let mut build = cargo()?;
    build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().context("cargo test did not start")?;
    if !output.status.success() {
        bail!("cargo test --no-run failed: {}", output.status);
    }
    let mut suites: Vec<Suite> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| suite(line, &root)).collect();
    suites.sort_by_cached_key(|suite| {
        let longest = LONGEST.iter().position(|name| *name == suite.name);
        (longest.unwrap_or(LONGEST.len()), suite.title.clone())
    });
    Ok(suites)
}

/// The test program that a line of cargo's describes, if any.
fn suite(message: &str, root: &Path) -> Option<Suite> {
    let message: Value = serde_json::from_str(message).ok()?;
    let program = PathBuf::from(message.get("executable")?.as_str()?);
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.pointer("/target/name")?.as_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let lane = match (folder.ends_with("tests/e2e"), kind) {
        (true, "test") if TIMED.iter().any(|(name, _)| *name == target) => Lane::Timed,
        (true, "test") if LONG.contains(&target) => Lane::Long,
        (true, "test") => Lane::EndToEnd,
        _ => Lane::Quick,
    };
    let last = folder.file_name()?.to_string_lossy().into_owned();
    let title = format!("{last} {target} ({kind})");
    let name = if kind == "test" { target.to_owned() } else { last };
    let package = folder.strip_prefix(root).unwrap_or(&folder).to_owned();
    is_test.then_some(Suite { name, title, program, folder, package, lane })
}

/// Returns the number of tests of an end-to-end suite that run at once.
fn tests_at_once(suite: &str) -> &'static str {
    TIMED.iter().find(|(name, _)| *name == suite).map_or(END_TO_END_THREADS, |(_, number)| number)
}

impl Suite {
    /// Returns the program with its arguments, and its limit of time.
    pub(crate) fn command(&self, filter: Option<&str>, environment: &[(&str, &Path)]) -> (Command, Duration) {
        let mut command = Command::new(&self.program);
        command.args(filter).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(environment.iter().copied());
        if self.lane == Lane::Quick {
            return (command, QUICK_LIMIT);
        }
        command.env("RUST_TEST_THREADS", tests_at_once(&self.name));
        (command, END_TO_END_LIMIT)
    }

    /// Returns the command that repeats a test of this suite, or all of them.
    pub(crate) fn again(&self, test: Option<&str>) -> String {
        let long = if self.lane == Lane::Long { "--long " } else { "" };
        let test = test.map(|test| format!("::{test}")).unwrap_or_default();
        format!("cargo xtask test {long}{}{test}", self.name)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns a line of cargo's about a program.
    pub(super) fn line(folder: &str, kind: &str, name: &str, test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": format!("/p/{folder}/Cargo.toml"),
            "target": {"kind": [kind], "name": name}, "profile": {"test": test}, "executable": "/t/x",
        })
        .to_string()
    }

    /// Returns a suite below the root `/p`.
    pub(crate) fn suite(folder: &str, kind: &str, name: &str) -> Suite {
        super::suite(&line(folder, kind, name, true), Path::new("/p"))
            .expect("cargo describes a test program")
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::line, *};

    #[test]
    fn a_test_program_is_found_in_what_cargo_says_and_has_its_lane() {
        let lane_of = |message: &str| suite(message, Path::new("/p")).map(|suite| suite.lane);
        assert_eq!(lane_of(&line("tests/e2e", "test", "outages", true)), Some(Lane::EndToEnd));
        assert_eq!(lane_of(&line("tests/e2e", "test", "kubectl", true)), Some(Lane::EndToEnd));
        assert_eq!(lane_of(&line("tests/e2e", "test", "gateway", true)), Some(Lane::Timed));
        assert_eq!(lane_of(&line("tests/e2e", "test", "clients", true)), Some(Lane::EndToEnd));
        assert_eq!(lane_of(&line("tests/e2e", "test", "callers", true)), Some(Lane::Long));
        assert_eq!(lane_of(&line("tests/e2e", "test", "go_clients", true)), Some(Lane::Long));
        assert_eq!(lane_of(&line("tests/e2e", "lib", "evacuation_e2e", true)), Some(Lane::Quick));
        assert_eq!(lane_of(&line("apiserver", "test", "rules", true)), Some(Lane::Quick));
        assert_eq!(lane_of(&line("apiserver", "bin", "evacuation-apiserver", false)), None);
        assert_eq!(lane_of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn the_command_that_repeats_a_test_names_its_suite_and_its_stage() {
        let again = |name: &str| testing::suite("tests/e2e", "test", name).again(Some("a::b"));
        assert_eq!(again("drain"), "cargo xtask test drain::a::b");
        assert_eq!(again("callers"), "cargo xtask test --long callers::a::b");
        assert_eq!(testing::suite("protocol", "lib", "x").again(None), "cargo xtask test protocol");
    }
}
