//! Pods that terminate and do not go.

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::PodSpec;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use crate::nodes::Stage;

/// A drain with a short grace period, after which a pod counts as held 30 seconds later.
fn drain() -> Value {
    json!({"requester": {"gracePeriodSeconds": 1}, "pods": {"unmanaged": "Evict"}})
}

/// Deletes a pod as `kubectl delete --grace-period=0 --force` does.
async fn force(stage: &Stage, pod: &Pod) {
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    stage.scene.pods.api().delete(&pod.name_any(), &now).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_keeps_a_finalizer_is_stuck_until_the_finalizer_is_removed() {
    let stage = Stage::new("finalizer", 1).await;
    let pod = stage.scene.pod("app", PodSpec::default().on(&stage.nodes[0])).await;
    stage.scene.finalizers(&pod, &["acme.io/volume"]).await;
    stage.drain("d", &[0], drain()).await;
    let found = stage.blocked("d", DrainBlockerReason::Finalizer, true).await;
    found.concerns(&[&pod], "Pod/app").says(&[
        "terminates",
        "finalizer acme.io/volume",
        "remove all finalizers of the pod",
    ]);
    assert_eq!(found.status.pods.evicting, 1);
    stage.scene.finalizers(&pod, &[]).await;
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_terminates_for_long_is_named_and_a_forced_deletion_ends_it() {
    let stage = Stage::new("slow", 1).await;
    let spec = PodSpec::default().annotation("controlplane.test/gone-after", "1h").on(&stage.nodes[0]);
    let pod = stage.scene.pod("app", spec).await;
    stage.drain("d", &[0], drain()).await;
    let found = stage.blocked("d", DrainBlockerReason::Terminating, false).await;
    found.concerns(&[&pod], "Pod/app").says(&[
        "still terminates",
        "grace period ended at",
        "--grace-period=0 --force",
    ]);
    force(&stage, &pod).await;
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminating_pod_of_a_silent_node_is_stuck_until_it_is_deleted_by_force() {
    let mut stage = Stage::new("dead", 0).await;
    let name = stage.scene.dead_node().await;
    stage.nodes.push(name.clone());
    let pod = json!({
        "metadata": {"name": "app"},
        "spec": {"nodeName": name, "containers": [{"name": "app", "image": "app"}]},
    });
    let pod = stage.scene.raw_pod(&pod).await;

    stage.drain("d", &[0], drain()).await;
    let found = stage.blocked("d", DrainBlockerReason::NodeUnreachable, true).await;
    found.concerns(&[&pod], &format!("Node/{name}")).says(&[
        "does not report",
        &name,
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        "--skip-wait-for-delete-timeout=30",
    ]);
    force(&stage, &pod).await;
    stage.drained("d").await;
}
