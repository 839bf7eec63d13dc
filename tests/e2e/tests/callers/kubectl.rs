//! kubectl drain of 1.37 and 1.32, and kubectl's library for drains.

use std::process::Command;

use controlplane::{GoTool, Output};

use crate::{
    cast::{Cast, on_own_node},
    stage::{Stage, assert_has, run, start},
};

const OLD_KUBECTL: GoTool = GoTool {
    name: "kubectl-1.32",
    package: ".",
    module: None,
    toolchain: None,
    files: &[
        ("go.mod", include_str!("../../callers/kubectl-1.32/go.mod")),
        ("go.sum", include_str!("../../callers/kubectl-1.32/go.sum")),
        ("main.go", include_str!("../../callers/kubectl-1.32/main.go")),
    ],
};

/// Returns the program, and the kubeconfig of `admin` in its environment.
async fn old_kubectl(stage: &Stage) -> Command {
    let built = tokio::task::spawn_blocking(|| OLD_KUBECTL.build()).await.unwrap().unwrap();
    let mut command = Command::new(built.program);
    command.env("KUBECONFIG", stage.control_plane().kubeconfig());
    command
}

/// Plays a drain that ends because one app refuses.
async fn drains(stage: &Stage, command: Command) -> Output {
    let cast = Cast::enter(stage, &on_own_node(stage)).await;
    let drain = start(command);
    cast.leaves(stage).await;
    let output = drain.await.unwrap();
    assert!(!output.success(), "one pod is left");
    assert!(stage.stays(cast.pod("refuses")).await);
    cast.check(stage, "admin");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drain_of_this_version_waits_for_every_app() {
    let stage = Stage::new("drain-new").await;
    let output = drains(&stage, stage.drain(&["--timeout=60s"])).await;
    assert_has(&output.stderr, &["responder self refused: a backup runs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drain_of_1_32_waits_for_every_app() {
    let stage = Stage::new("drain-old").await;
    let mut command = old_kubectl(&stage).await;
    command.args(["drain", stage.node(), "--ignore-daemonsets", "--timeout=60s"]);
    let output = drains(&stage, command).await;
    assert_has(&output.stderr, &["responder self refused: a backup runs"]);
    let mut version = old_kubectl(&stage).await;
    version.args(["version", "--client", "-o", "yaml"]);
    assert!(run(version).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_of_kubectl_drain_waits_for_every_app() {
    let stage = Stage::new("drain-library").await;
    let mut command = old_kubectl(&stage).await;
    command.args(["drain-library", stage.node(), "60s"]);
    drains(&stage, command).await;
}
