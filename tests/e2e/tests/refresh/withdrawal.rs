//! Requests that are taken back before the eviction.

use serde_json::json;

use crate::crashes::{AFTER_RESTARTS, Crashes, ENABLED};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_recovers_before_it_is_evicted_stays() {
    let scene = Crashes::new("recovers").await;
    scene.register_keeper().await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash(&pods[0], 5).await;
    scene.asked(&pods[0]).await;
    scene.recover(&pods[0], 5).await;
    scene.ended(&pods[0], "Failed Canceled").await;
    assert!(scene.stays(&pods[0]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_opts_out_before_it_is_evicted_stays() {
    let scene = Crashes::new("opts-out").await;
    scene.register_keeper().await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash(&pods[0], 5).await;
    scene.asked(&pods[0]).await;
    scene.annotate(&pods[0], &json!({ENABLED: "false"})).await;
    scene.ended(&pods[0], "Failed Canceled").await;
    assert!(scene.stays(&pods[0]).await);
}
