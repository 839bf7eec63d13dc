//! The lines that a process writes.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panic"
)]

use std::process::Command;

use machinery_logging::{LogFormat, LogOptions};

/// Not a test: the process that the test starts.
#[test]
#[ignore = "logs, for the test below"]
fn logs() {
    if std::env::var_os("COLOURS_LOGS").is_some() {
        LogOptions::default().start(&[]);
        tracing::warn!(namespace = "shop", "the watch broke");
    }
}

#[test]
fn a_log_that_is_no_terminal_has_no_colours() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "logs", "--ignored", "--nocapture"]).env("COLOURS_LOGS", "1");
    let log = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(log.contains("the watch broke") && log.contains("namespace=\"shop\""), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

/// Not a test: the process that the test starts.
#[test]
#[ignore = "ends, for the test below"]
fn panics() {
    if std::env::var_os("PANICS_AS_JSON").is_some() {
        LogOptions { log_format: LogFormat::Json, ..LogOptions::default() }.start(&[]);
        std::thread::spawn(|| panic!("the worker\nbroke")).join().ok();
    }
}

#[test]
fn a_panic_is_a_line_of_a_log_of_json() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "panics", "--ignored", "--nocapture"]).env("PANICS_AS_JSON", "1");
    let log = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert_eq!((&lines[0]["level"], &lines[0]["message"]), (&"ERROR".into(), &"the worker\nbroke".into()));
    assert!(lines[0]["fields"]["location"].as_str().unwrap().contains("lines.rs"), "{log}");
}
