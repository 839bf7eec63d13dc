//! The log of a process whose standard error is a file or a pipe.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::process::Command;

use machinery_logging::{LogFormat, LogOptions};

/// Not a test: the process that the test starts.
#[test]
#[ignore = "logs, for the test below"]
fn logs() {
    if std::env::var_os("COLOURS_LOGS").is_some() {
        LogOptions { verbosity: 2, log_format: LogFormat::Text }.start(&[]);
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
