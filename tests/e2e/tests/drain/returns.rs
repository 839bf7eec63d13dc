//! Pods that come back to a node that is being drained.

use anyhow::Context;
use controlplane::eventually;
use evacuation_api::{DrainBlocker, DrainBlockerReason, DrainVerdict};
use evacuation_e2e::{
    scene::{Bystander, PATIENCE},
    workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;

use crate::nodes::{Stage, entry};

/// # Attack
///
/// - Attacker: a tenant whose pod tolerates every taint and selects the node
/// - Act: is back on the node each time that the drain has evicted it
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_is_evicted_in_rounds_until_its_way_out_is_taken() {
    let stage = Stage::new("returns", 1).await;
    let bystander = Bystander::new(&stage.scene).await;
    let deployment = json!({
        "metadata": {"name": "op"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "op"}},
            "template": {
                "metadata": {"labels": {"app": "op"}, "annotations": {"controlplane.test/gone-after": "100ms"}},
                "spec": {
                    "nodeSelector": {"pool": stage.scene.namespace()},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
        },
    });
    stage.scene.create::<Deployment>(deployment).await;
    stage.scene.ready_pods("op", 1, &[]).await;
    stage.drain("d", &[0], json!({})).await;
    let comes_back = DrainBlockerReason::ComesBack.as_str();
    let status = stage
        .until("d", "the drain is stuck", |status| {
            status.blockers.iter().any(|blocker| blocker.reason == comes_back && blocker.stuck)
        })
        .await;
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck), "{status:?}");
    bystander.drains(&stage.scene).await;
    let said = &status.blockers[0].message;
    assert!(said.contains(&format!("kubectl evacuate set {} --skip-late-pods", stage.name("d"))), "{said}");
    let asked = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.len();
    let now = stage.drains().get(&stage.name("d")).await.unwrap().status.unwrap();
    let returned = &entry(&now, &stage.nodes[0]).returned;
    let rounds = usize::try_from(returned[0].rounds).unwrap();
    assert!(returned.len() == 1 && rounds >= 3 && asked <= rounds + 1, "{asked}: {returned:?}");
    let asked = i32::try_from(asked).unwrap();
    stage.until("d", "the pods that were asked are gone", |status| status.pods.gone >= asked).await;

    stage.change("d", json!({"pods": {"late": "Skip"}})).await;
    let status = stage.drained("d").await;
    assert!(status.pods.gone >= asked, "{status:?}");
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
    let kept = status.blockers.iter().find(|blocker| deleted_later(blocker)).unwrap();
    let (_, kept) = kept.pod.as_deref().unwrap().split_once('/').unwrap();
    let kept = pods.get(kept).await.unwrap();

    stage.change("d", json!({"pods": {"late": "Skip"}})).await;
    stage.drained("d").await;
    assert!(stage.scene.stays(&kept).await, "{:?}", kept.metadata.name);
}
