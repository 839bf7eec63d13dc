//! Pods that come back to a node that is being drained.

use anyhow::Context;
use controlplane::eventually;
use evacuation_api::{DrainBlocker, DrainBlockerReason, DrainVerdict, RESPONDERS_ANNOTATION};
use evacuation_client::Answer;
use evacuation_e2e::{
    scene::{Bystander, PATIENCE},
    workload,
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::nodes::{Stage, entry, is_cordoned};

/// # Attack
///
/// - Attacker: a tenant whose pod tolerates every taint and selects the node
/// - Act: is back on the node each time that the drain has evicted it
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_is_evicted_in_rounds_until_its_way_out_is_taken() {
    let stage = Stage::new("returns", 1).await;
    let bystander = Bystander::new(&stage.scene).await;
    let mut op = op();
    let spec = &mut op["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"pool": stage.scene.namespace()});
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    stage.scene.create::<Deployment>(op).await;
    let cause = "they tolerate the cordon (spec.tolerations)";
    let message = comes_back(&stage, "ReplicaSet/op-", cause, json!({})).await;
    bystander.drains(&stage.scene).await;
    let asked = are_asked_in_rounds(&stage).await;
    stage.runs_named(&message, SKIP).await;
    are_left_alone(&stage, asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_owner_names_the_node_is_evicted_in_rounds_until_its_way_out_is_taken() {
    let stage = Stage::new("named", 1).await;
    let mut op = op();
    op["spec"]["template"]["spec"]["nodeName"] = json!(stage.nodes[0]);
    stage.scene.create::<Deployment>(op).await;
    let message = comes_back(&stage, "ReplicaSet/op-", NAMED, json!({})).await;
    let asked = are_asked_in_rounds(&stage).await;
    stage.runs_named(&message, SKIP).await;
    are_left_alone(&stage, asked).await;
}

/// A StatefulSet makes a pod after its predecessor is gone. So a pod whose app is silent keeps the node from
/// being drained in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_under_its_name_is_evicted_in_rounds_until_its_way_out_is_taken() {
    let stage = Stage::new("samename", 1).await;
    let responders = json!([{"name": "self", "timeoutSeconds": 600}]).to_string();
    let quick = json!({"controlplane.test/gone-after": "100ms", RESPONDERS_ANNOTATION: responders});
    let silent = stage.deployment("silent", 1, quick).await.remove(0);
    let mut op = op();
    op["spec"]["serviceName"] = json!("op");
    op["spec"]["template"]["spec"]["nodeName"] = json!(stage.nodes[0]);
    stage.scene.create::<StatefulSet>(op).await;
    let message = comes_back(&stage, "StatefulSet/op", NAMED, json!({})).await;
    let asked = are_asked_in_rounds(&stage).await;
    stage.runs_named(&message, SKIP).await;
    let _app = stage.scene.app(&silent, |_| async { Answer::accept() }).await;
    are_left_alone(&stage, asked + 1).await;
}

/// The drain does not cordon the node. Each pod ends slower than its replacement is scheduled, so that the
/// node is not drained in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_because_nothing_cordons_the_node_stays_away_after_the_cordon_that_is_named() {
    let stage = Stage::new("nocordon", 1).await;
    stage.deployment("op", 1, json!({"controlplane.test/gone-after": "10s"})).await;
    let cause = "the drain does not cordon the node (cordon: Never)";
    let message = comes_back(&stage, "ReplicaSet/op-", cause, json!({"cordon": "Never"})).await;
    assert!(!is_cordoned(&stage.node(0).await));
    stage.runs_named(&message, "kubectl cordon ").await;
    assert!(is_cordoned(&stage.node(0).await));
    stage.drained("d").await;
    assert!(stage.pods_on(0).await.is_empty());
}

/// Beginning of the command that leaves pods alone that come back.
const SKIP: &str = "kubectl evacuate set ";
/// The cause of pods that tolerate no cordon.
const NAMED: &str = "the owner, or a scheduler of its own, names the node (spec.nodeName)";

/// A workload of one pod.
fn op() -> Value {
    workload("op", 1, &json!({"controlplane.test/gone-after": "100ms"}))
}

/// Drains the node of the app `op`, whose pod comes back, with further fields of the spec, until the drain is
/// stuck. It must name the owner, the cause and the way out. Returns the message that names them.
async fn comes_back(stage: &Stage, owner: &str, cause: &str, more: Value) -> String {
    stage.scene.ready_pods("op", 1, &[]).await;
    stage.drain("d", &[0], more).await;
    let comes_back =
        |blocker: &&DrainBlocker| blocker.reason == DrainBlockerReason::ComesBack.as_str() && blocker.stuck;
    let status = stage
        .until("d", "the drain is stuck", |status| status.blockers.iter().any(|it| comes_back(&it)))
        .await;
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck), "{status:?}");
    let blocker = status.blockers.iter().find(comes_back).unwrap();
    assert!(blocker.object.as_deref().unwrap().starts_with(owner), "{blocker:?}");
    let way_out = format!("kubectl evacuate set {} --skip-late-pods", stage.name("d"));
    for words in [cause, &way_out] {
        assert!(blocker.message.contains(words), "{words:?} is not in {blocker:?}");
    }
    blocker.message.clone()
}

/// Returns the number of pods of the app `op` that were asked, at most one in each round, when they are gone.
async fn are_asked_in_rounds(stage: &Stage) -> i32 {
    let all = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    let asked = all.iter().filter(|one| one.spec.target.pod.name.starts_with("op-")).count();
    let now = stage.drains().get(&stage.name("d")).await.unwrap().status.unwrap();
    let returned = &entry(&now, &stage.nodes[0]).returned;
    let rounds = usize::try_from(returned[0].rounds).unwrap();
    assert!(returned.len() == 1 && rounds >= 3 && asked <= rounds + 1, "{asked}: {returned:?}");
    let asked = i32::try_from(asked).unwrap();
    stage.until("d", "the pods that were asked are gone", |status| status.pods.gone >= asked).await;
    asked
}

/// Waits until the drain ends, with that many pods gone at least, and the pod of the app `op` stays.
async fn are_left_alone(stage: &Stage, gone: i32) {
    let status = stage.drained("d").await;
    assert!(status.pods.gone >= gone, "{status:?}");
    stage.scene.ready_pods("op", 1, &[]).await;
}

/// The Deployment names the node, and each of its pods fails there, as one that a kubelet rejects.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_end_and_come_back_are_deleted_in_rounds_until_the_way_out_is_taken() {
    let stage = Stage::new("ended", 1).await;
    let annotations = json!({
        "controlplane.test/running-after": "1s", "controlplane.test/gone-after": "100ms",
        "controlplane.test/phase": "Failed",
    });
    let mut op = workload("op", 1, &annotations);
    op["spec"]["template"]["spec"]["nodeName"] = json!(stage.nodes[0]);
    stage.scene.create::<Deployment>(op).await;
    let (pods, failed) = (stage.scene.pods.api(), ListParams::default().fields("status.phase=Failed"));
    let ended = eventually(PATIENCE, "a pod has ended", || async {
        pods.list(&failed).await?.items.pop().map(drop).context("none has")
    });
    ended.await.unwrap();
    stage.drain("d", &[0], json!({})).await;
    let deleted_later = |blocker: &DrainBlocker| {
        let message = &blocker.message;
        blocker.reason == DrainBlockerReason::ComesBack.as_str()
            && blocker.stuck
            && message.contains("until then the pod is deleted at ")
    };
    let status =
        stage.until("d", "ended pods are stuck", |status| status.blockers.iter().any(deleted_later)).await;
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck), "{status:?}");
    let returned = &entry(&status, &stage.nodes[0]).returned;
    assert!(returned.len() == 1 && returned[0].rounds >= 3, "{returned:?}");
    let blocker = status.blockers.iter().find(|blocker| deleted_later(blocker)).unwrap();
    let (_, kept) = blocker.pod.as_deref().unwrap().split_once('/').unwrap();
    let kept = pods.get(kept).await.unwrap();

    stage.runs_named(&blocker.message, SKIP).await;
    stage.drained("d").await;
    assert!(stage.scene.stays(&kept).await, "{:?}", kept.metadata.name);
}
