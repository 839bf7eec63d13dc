//! `kubectl evacuate lint`, as a pipeline runs it: without a cluster.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// Runs the plugin without a kubeconfig and without tools that render.
fn plugin(arguments: &[&str]) -> Command {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-evacuate"));
    plugin.args(arguments).env("KUBECONFIG", "/no/such/file").env("PATH", "/no/such/folder");
    plugin
}

/// Runs the plugin with the manifest on standard input.
fn lint(manifest: &str) -> Output {
    let mut plugin = plugin(&["lint", "-f", "-"])
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

#[test]
fn all_problems_of_all_files_are_named_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display().to_string();
    for (name, text) in [
        (
            "drain.yaml",
            "apiVersion: evacuation.dev/v1alpha1\nkind: NodeEvacuation\nmetadata: {name: d}\n\
             spec: {nodes: {names: [1]}, cordon: Soon, paused: 5}\n",
        ),
        (
            "gateway.yaml",
            "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: [{name: X}]\n",
        ),
        (
            "settings.yaml",
            "apiVersion: apiserver.evacuation.dev/v1alpha1\nkind: NegotiationSettings\nmaxDelaySeconds: 1h\n",
        ),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let output = plugin(&["lint", "-f", &root]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "drain.yaml: NodeEvacuation d: spec.nodes.names[0]: ",
        "drain.yaml: NodeEvacuation d: spec.cordon: ",
        "drain.yaml: NodeEvacuation d: spec.paused: ",
        "gateway.yaml: GatewayConfiguration: callers[0].name: ",
        "settings.yaml: NegotiationSettings: maxDelaySeconds: ",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{root}/{expected}"))),
            "{expected}: {text}"
        );
    }
    assert_eq!((text.lines().count(), output.status.code()), (5, Some(1)), "{text}");
}

#[test]
fn files_of_other_programs_in_a_directory_are_named_in_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display().to_string();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    let utf16: Vec<u8> = format!("\u{feff}{pod}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for name in ["chart/templates", ".github"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    for (name, text) in [
        ("kustomization.yaml", &b"resources: [pod.yaml]"[..]),
        ("pod.yaml", &utf16),
        ("chart/Chart.yaml", b"name: c"),
        ("chart/values.yaml", b"replicas: 2"),
        ("chart/templates/web.yaml", b"kind: {{ .Values.kind }}"),
        (".github/ci.yaml", b"a: ["),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let output = plugin(&["lint", "-R", "-f", &root]).output().unwrap();
    let expected = format!(
        "no problem, 1 object checked; not checked: {root}/chart/Chart.yaml, {root}/chart/templates (helm is \
         not on the PATH), {root}/chart/values.yaml, {root}/kustomization.yaml (kustomize is not on the PATH)\n"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(output.status.code(), Some(0));

    let values = format!("{root}/chart/values.yaml");
    let output = plugin(&["lint", "-f", &values]).output().unwrap();
    let problem = "document 1: is not an object of Kubernetes: apiVersion or kind is missing";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{values}: {problem}\n"));
    assert_eq!(output.status.code(), Some(1));
}
