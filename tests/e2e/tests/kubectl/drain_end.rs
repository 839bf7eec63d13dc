//! `kubectl evacuate node`: how it ends when a pod does not go.

use controlplane::{Signal, eventually};
use evacuation_api::{DrainedNodePhase, NodeEvacuation};
use evacuation_client::{Answer, End};
use evacuation_e2e::PodSpec;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    desk::{Desk, assert_has},
    drain::{cordoned, evacuate, own_node},
    watch::PATIENCE,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_the_pod_and_ends_with_code_2() {
    let desk = Desk::new("drainno").await;
    let node = own_node(&desk).await;
    let pod = desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    desk.pods.create("web-0", &PodSpec::default().on(&node)).await.unwrap();
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    let output = evacuate(&desk, &node, &["--force", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_has(&output.stdout, &["db-0: Failed", "a backup runs", "web-0: Evacuated"]);
    assert!(desk.pods.api().get("db-0").await.is_ok());
    assert!(desk.pods.api().get_opt("web-0").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_pod_at_the_timeout_ends_it_with_code_3_and_the_drain_continues() {
    let desk = Desk::new("drainlate").await;
    let node = own_node(&desk).await;
    let pod = desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    let output = evacuate(&desk, &node, &["--force", "--timeout=15s"]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_has(&output.stderr, &["not ended", "db-0", "timeout: ", "continues", "kubectl evacuate cancel"]);
    assert!(cordoned(&desk, &node).await);
    assert!(End::of(&desk.evacuation_of("db-0").await).is_none());

    let _app = desk.answers(&pod, Answer::accept()).await;
    desk.pods.gone(&pod).await.unwrap();
    // The same command returns to the drain, and sees its end.
    let output = evacuate(&desk, &node, &["--force", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_should_be_gone_for_long_is_not_waited_for_when_a_flag_says_so() {
    let desk = Desk::new("drainskip").await;
    let node = own_node(&desk).await;
    let pod = desk.pods.create("stuck", &PodSpec::default().on(&node)).await.unwrap();
    finalizers(&desk, &pod, &["test.evacuation.dev/hold"]).await;
    desk.pods.api().delete("stuck", &DeleteParams::default().grace_period(1)).await.unwrap();
    let output = evacuate(&desk, &node, &["--force", "--timeout=5s"]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    desk.cancel(&node).await;
    let output = evacuate(&desk, &node, &["--force", "--skip-wait-for-delete-timeout=1", "--timeout=60s"]);
    let output = output.await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stdout, &[&format!("node/{node} evacuated, 1 pod skipped"), "0 gone, 1 skipped"]);
    finalizers(&desk, &pod, &[]).await;
}

async fn finalizers(desk: &Desk, pod: &Pod, finalizers: &[&str]) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    desk.pods.api().patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_deadline_a_pod_that_refuses_under_wait_is_evicted_all_the_same() {
    let desk = Desk::new("drainhard").await;
    let node = own_node(&desk).await;
    let pod = desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    let output =
        evacuate(&desk, &node, &["--force", "--on-refusal=wait", "--deadline=15s", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stdout, &["db-0: Refused", "db-0: Evacuated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_node_that_registers_again_ends_it_with_code_2_and_its_pod_runs_on_unasked() {
    let desk = Desk::new("drainanew").await;
    let nodes: [String; 2] = std::array::from_fn(|number| format!("{}-{number}", desk.namespace()));
    for node in &nodes {
        desk.control_plane().add_node(node, &[]).await.unwrap();
    }
    let first = desk.pods.create("first", &PodSpec::watching().on(&nodes[0])).await.unwrap();
    let later = desk.pods.create("later", &PodSpec::watching().on(&nodes[1])).await.unwrap();
    let flags = ["evacuate", "node", &nodes[0], &nodes[1], "--force", "--max-parallel=1"];
    let draining = desk.start_in_cluster(&flags);
    draining.wait_for_log(PATIENCE, "first: Asking").await.unwrap();
    // Kubernetes removes the pods of a node that is gone for 40 s. This one is not.
    let api: Api<Node> = Api::all(desk.admin());
    api.delete(&nodes[1], &DeleteParams::default()).await.unwrap();
    desk.control_plane().add_node(&nodes[1], &[]).await.unwrap();

    let _app = desk.answers(&first, Answer::accept()).await;
    let status = draining.wait(PATIENCE).await.unwrap();
    let log = draining.log().unwrap();
    assert_eq!(status.code(), Some(2), "{status:?} {log}");
    assert_has(&log, &["first: Evacuated", "another node took its name", &nodes[1]]);
    assert_eq!(desk.count().await, 1, "no app of the other node was asked");
    let pod = desk.pods.api().get("later").await.unwrap();
    assert_eq!((pod.uid(), pod.metadata.deletion_timestamp), (later.uid(), None));
    assert!(!cordoned(&desk, &nodes[1]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_node_that_is_deleted_keeps_the_command_until_its_pods_are_gone() {
    let desk = Desk::new("drainlost").await;
    let nodes: [String; 2] = std::array::from_fn(|number| format!("{}-{number}", desk.namespace()));
    for node in &nodes {
        desk.control_plane().add_node(node, &[]).await.unwrap();
    }
    let first = desk.pods.create("first", &PodSpec::watching().on(&nodes[0])).await.unwrap();
    let later = desk.pods.create("later", &PodSpec::watching().on(&nodes[1])).await.unwrap();
    // Kubernetes removes the pods of a node that is gone for 40 s. This one stays until the test removes it.
    finalizers(&desk, &later, &["test.evacuation.dev/hold"]).await;
    let name = desk.namespace();
    let named = format!("--name={name}");
    let flags = ["evacuate", "node", &nodes[0], &nodes[1], "--force", "--max-parallel=1", &named];
    let draining = desk.start_in_cluster(&flags);
    draining.wait_for_log(PATIENCE, "first: Asking").await.unwrap();
    let api: Api<Node> = Api::all(desk.admin());
    api.delete(&nodes[1], &DeleteParams::default()).await.unwrap();
    let drains: Api<NodeEvacuation> = Api::all(desk.admin());
    let reached = async |wanted: [DrainedNodePhase; 2]| {
        let what = format!("the nodes are {wanted:?}");
        let found = eventually(PATIENCE, &what, || async {
            let status = drains.get(name).await.unwrap().status.unwrap_or_default();
            let phases: Vec<_> = status.nodes.iter().map(|node| node.phase).collect();
            if phases == wanted { Ok(()) } else { Err(format!("{status:?}")) }
        });
        found.await.unwrap();
    };
    reached([DrainedNodePhase::Draining, DrainedNodePhase::Draining]).await;

    let _app = desk.answers(&first, Answer::accept()).await;
    reached([DrainedNodePhase::Drained, DrainedNodePhase::Draining]).await;
    draining.wait_for_log(PATIENCE, &format!("node/{} evacuated", nodes[0])).await.unwrap();
    assert!(draining.is_running(), "{}", draining.log().unwrap());
    assert_eq!(desk.pods.api().get("later").await.unwrap().uid(), later.uid());
    assert_eq!(desk.count().await, 1, "no app of the deleted node was asked");

    desk.pods.api().delete("later", &DeleteParams::default().grace_period(0)).await.unwrap();
    finalizers(&desk, &later, &[]).await;
    let status = draining.wait(PATIENCE).await.unwrap();
    let log = draining.log().unwrap();
    assert_eq!(status.code(), Some(0), "{status:?} {log}");
    assert_has(&log, &["first: Evacuated", &format!("node/{} is gone", nodes[1]), "was deleted at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_drain_leaves_things_as_they_are_and_says_so() {
    let desk = Desk::new("drainstop").await;
    let node = own_node(&desk).await;
    desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    let draining = desk.start_in_cluster(&["evacuate", "node", &node, "--force"]);
    draining.wait_for_log(PATIENCE, "db-0: Asking").await.unwrap();
    draining.signal(Signal::Interrupt).unwrap();
    let status = draining.wait(PATIENCE).await.unwrap();
    assert_eq!(status.code(), Some(130), "{status:?}");
    let log = draining.log().unwrap();
    assert_has(&log, &["interrupted: ", "continues", "kubectl evacuate status", "kubectl evacuate cancel"]);
    assert!(cordoned(&desk, &node).await);
    assert!(End::of(&desk.evacuation_of("db-0").await).is_none());
}
