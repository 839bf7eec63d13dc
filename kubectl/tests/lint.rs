//! `kubectl evacuate lint`, as a pipeline runs it: without a cluster.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// Runs the plugin with the manifest on standard input, and without a kubeconfig.
fn lint(manifest: &str) -> Output {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-evacuate"))
        .args(["lint", "-f", "-"])
        .env("KUBECONFIG", "/no/such/file")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    plugin.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    plugin.wait_with_output().unwrap()
}

#[test]
fn a_problem_is_one_line_and_exit_code_1_and_no_problem_is_exit_code_0() {
    let pod = |annotation: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotation}}}}}\n")
    };
    let bad = lint(&pod("gate.evacuation.dev/open: maybe"));
    assert_eq!(bad.status.code(), Some(1));
    let expected =
        "-: Pod p: metadata.annotations[gate.evacuation.dev/open]: \"maybe\" is neither true nor false\n";
    assert_eq!(String::from_utf8(bad.stdout).unwrap(), expected);
    let good = lint(&pod("gate.evacuation.dev/open: \"true\""));
    assert_eq!(good.status.code(), Some(0));
    assert_eq!(String::from_utf8(good.stdout).unwrap(), "no problem, 1 object checked\n");
}
