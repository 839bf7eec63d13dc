//! `kubectl evacuate node`: how it ends when a pod does not go.

use controlplane::Signal;
use evacuation_client::{Answer, End};
use evacuation_e2e::PodSpec;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
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
