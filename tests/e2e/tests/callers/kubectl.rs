//! kubectl drain of 1.37 and 1.32, and kubectl's library for drains.

use std::process::Command;

use controlplane::Output;
use evacuation_e2e::KUBECTL_1_32;

use crate::{
    cast::{Cast, kubeconfig, on_own_node},
    stage::{Stage, assert_has, run, start},
};

/// Returns the program, and the kubeconfig of `admin` in its environment.
async fn old_kubectl(stage: &Stage) -> Command {
    let built = tokio::task::spawn_blocking(|| KUBECTL_1_32.build()).await.unwrap().unwrap();
    let mut command = Command::new(built.program);
    command.env("KUBECONFIG", stage.control_plane().kubeconfig());
    command
}

/// Plays a drain that ends because one app refuses.
async fn drains(stage: &Stage, command: Command) -> Output {
    drains_as(stage, command, "admin").await
}

/// The same as another user.
async fn drains_as(stage: &Stage, command: Command, user: &str) -> Output {
    let cast = Cast::enter(stage, &on_own_node(stage)).await;
    let drain = start(command);
    cast.leaves(stage).await;
    let output = drain.await.unwrap();
    assert!(!output.success(), "one pod is left");
    assert!(stage.stays(cast.pod("refuses")).await);
    cast.check(stage, user);
    output
}

/// Returns a drain as the service account of that name, and the account's user.
async fn drain_of(stage: &Stage, account: &str) -> (Command, String) {
    let mut command = stage.drain(&["--timeout=90s"]);
    command.env("KUBECONFIG", kubeconfig(stage, account).await);
    (command, format!("system:serviceaccount:kube-system:{account}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_gives_up_on_refusals_leaves_the_pod_and_ends_its_request() {
    let stage = Stage::new("drain-yields").await;
    let (command, user) = drain_of(&stage, "yielding-drain").await;
    drains_as(&stage, command, &user).await;
    let evacuations = stage.all_evacuations().await;
    let refused = evacuations.iter().filter(|evacuation| {
        let finished = evacuation.status.as_ref().map(|status| format!("{:?}", status.conditions));
        finished.is_some_and(|conditions| conditions.contains("Refused"))
    });
    assert!(refused.count() >= 1, "{evacuations:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_overrides_refusals_asks_first_and_empties_the_node() {
    let stage = Stage::new("drain-overrides").await;
    let (command, user) = drain_of(&stage, "overriding-drain").await;
    let cast = Cast::enter(&stage, &on_own_node(&stage)).await.overridden();
    let drain = start(command);
    cast.leaves(&stage).await;
    let output = drain.await.unwrap();
    assert!(output.success(), "{}", output.stderr);
    cast.check(&stage, &user);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drain_of_this_version_waits_for_every_app() {
    let stage = Stage::new("drain-new").await;
    let output = drains(&stage, stage.drain(&["--timeout=90s"])).await;
    assert_has(&output.stderr, &["responder self refused: a backup runs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drain_of_1_32_waits_for_every_app() {
    let stage = Stage::new("drain-old").await;
    let mut command = old_kubectl(&stage).await;
    command.args(["drain", stage.node(), "--ignore-daemonsets", "--timeout=90s"]);
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
    command.args(["drain-library", stage.node(), "90s"]);
    drains(&stage, command).await;
}
