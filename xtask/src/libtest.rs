//! The output of Rust's test programs.

/// Numbers that test programs reported, added up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Adds the numbers of another run.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

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

/// A test that failed, with what it printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) test: String,
    pub(crate) lines: Vec<String>,
}

/// Returns the tests that failed.
///
/// They stand in the indented lists of names before each `test result`. The lines `test NAME ... FAILED` are
/// not read, because the output of a test's child can break into them.
pub(crate) fn failed(text: &str) -> Vec<Failed> {
    let lines: Vec<&str> = text.lines().collect();
    let mut failed = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == "failures:") {
        let rest = lines.get(at + 1..).unwrap_or_default();
        let names = rest.iter().map_while(|line| line.strip_prefix("    "));
        failed.extend(names.map(|test| Failed { test: test.to_owned(), lines: printed(&lines, test) }));
    }
    failed
}

/// Returns the lines that a test printed, without its backtrace.
fn printed(lines: &[&str], test: &str) -> Vec<String> {
    let title = format!("---- {test} stdout ----");
    let own = lines.iter().skip_while(|line| **line != title).skip(1);
    own.take_while(|line| !line.starts_with("---- ") && **line != "failures:")
        .take_while(|line| **line != "stack backtrace:")
        .filter(|line| !line.is_empty() && !line.starts_with("note: run with `RUST_BACKTRACE"))
        .map(|line| (*line).to_owned())
        .collect()
}

/// Returns the tests that had failed, and those that had begun and had no result, when the program was
/// killed.
///
/// A program with several threads names a test that runs after a minute, one with a single thread at once.
pub(crate) fn running(text: &str) -> Vec<Failed> {
    let (mut failed, mut running): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for line in text.lines().filter_map(|line| line.strip_prefix("test ")) {
        if let Some((test, _)) = line.split_once(" has been running for over") {
            running.push(test.to_owned());
        } else if let Some((test, result)) = line.split_once(" ... ") {
            running.retain(|known| known != test);
            match result {
                "" => running.push(test.to_owned()),
                "FAILED" => failed.push(test.to_owned()),
                _ => {}
            }
        }
    }
    let why = |line: &'static str| move |test| Failed { test, lines: vec![line.to_owned()] };
    let failed = failed.into_iter().map(why("failed before the program was killed"));
    failed.chain(running.into_iter().map(why("still running at the limit of time"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 3 tests\n\
        test a::b ... ok\n\
        test a::c ... FAILED\n\
        test a::d ... FAILED\n\n\
        failures:\n\n\
        ---- a::c stdout ----\n\n\
        thread 'a::c' (7) panicked at tests/a.rs:3:5:\nnot within 60s: the pod is gone\n\
        stack backtrace:\n   0: x\nnote: run with `RUST_BACKTRACE=1`\n\n\
        ---- a::d stdout ----\nlog line\nthread 'a::d' (8) panicked at tests/a.rs:9:5:\n\
        note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n\n\
        failures:\n    a::c\n    a::d\n\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.2s\n";

    #[test]
    fn the_results_of_all_test_programs_are_added_up() {
        let mut tally = Tally::default();
        tally.add(
            "test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        OUTPUT.lines().for_each(|line| tally.add(line));
        assert_eq!(tally, Tally { passed: 7, failed: 2, ignored: 1 });
    }

    #[test]
    fn each_test_that_failed_has_its_lines_without_the_backtrace() {
        let failed: Vec<(String, Vec<String>)> =
            failed(OUTPUT).into_iter().map(|failed| (failed.test, failed.lines)).collect();
        let lines = |lines: [&str; 2]| lines.map(str::to_owned).to_vec();
        assert_eq!(
            failed,
            [
                (
                    "a::c".to_owned(),
                    lines([
                        "thread 'a::c' (7) panicked at tests/a.rs:3:5:",
                        "not within 60s: the pod is gone"
                    ])
                ),
                ("a::d".to_owned(), lines(["log line", "thread 'a::d' (8) panicked at tests/a.rs:9:5:"])),
            ]
        );
    }

    #[test]
    fn the_tests_that_still_run_are_those_that_began_and_have_no_result() {
        let many = "test a ... ok\ntest b has been running for over 60 seconds\n\
            test c has been running for over 60 seconds\ntest b ... ok\n";
        let names = |text| running(text).into_iter().map(|failed| failed.test).collect::<Vec<_>>();
        assert_eq!(names(many), ["c"]);
        assert_eq!(names("test a ... ok\ntest b ... "), ["b"]);
        assert_eq!(names("test a ... ok\ntest b ... FAILED\ntest c ... "), ["b", "c"]);
    }
}
