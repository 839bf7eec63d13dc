//! One pod of an owner at a time, and later each time.

use chrono::TimeDelta;
use controlplane::eventually;
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::crashes::{AFTER_RESTARTS, BACKOFF_SECONDS, Crashes, attempt, created, finished};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_pods_of_one_owner_the_second_waits_for_the_first_and_for_the_backoff() {
    let scene = Crashes::new("two").await;
    let pods = scene.deployment("web", 2, &json!({AFTER_RESTARTS: "5"})).await;
    // The first pod terminates until the second was held.
    scene.finalizers(&pods[0], &["test.evacuation.dev/hold"]).await;
    scene.crash(&pods[0], 5).await;
    let asked = scene.asked(&pods[0]).await;
    scene.crash(&pods[1], 5).await;
    scene.event_on(&pods[1], "RefreshOneAtATime", "one pod of its owner at a time").await;
    assert_eq!(attempt(&asked), "1");
    scene.finalizers(&pods[0], &[]).await;
    let first = scene.ended(&pods[0], "Evacuated Evicted").await;
    scene.event_on(&pods[1], "RefreshBackoff", "not before").await;
    assert!(scene.stays(&pods[1]).await);

    let second = scene.ended(&pods[1], "Evacuated Evicted").await;
    assert_eq!(attempt(&second), "2");
    let waited = created(&second) - finished(&first);
    assert!(waited >= TimeDelta::seconds(BACKOFF_SECONDS), "{waited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_backoff_outlives_the_controller() {
    let scene = Crashes::alone("restart").await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash(&pods[0], 5).await;
    let first = scene.ended(&pods[0], "Evacuated Evicted").await;
    let next = scene.ready("web", 1, &[&pods[0]]).await;
    scene.crash(&next[0], 5).await;
    scene.event_on(&next[0], "RefreshBackoff", "not before").await;

    let controller = &scene.platform().controllers()[0];
    controller.kill().unwrap();
    let leases: Api<Lease> = Api::namespaced(scene.admin(), "evacuation-system");
    leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    controller.start().unwrap();

    let second = scene.ended(&next[0], "Evacuated Evicted").await;
    assert_eq!(attempt(&second), "2");
    let waited = created(&second) - finished(&first);
    assert!(waited >= TimeDelta::seconds(BACKOFF_SECONDS), "{waited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_the_owner_was_well_for_a_while_the_next_attempt_is_a_first_one_and_waits_for_nothing() {
    let scene = Crashes::new("settled").await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash(&pods[0], 5).await;
    let first = scene.ended(&pods[0], "Evacuated Evicted").await;
    let next = scene.ready("web", 1, &[&pods[0]]).await;
    let api = scene.pods.evacuations();
    let settled = eventually(PATIENCE, "the owner is well", || async {
        let found = api.get(first.metadata.name.as_deref().unwrap_or_default()).await?;
        let annotations = found.metadata.annotations.unwrap_or_default();
        match annotations.get("refresh.evacuation.dev/settled") {
            Some(since) => Ok(since.clone()),
            None => anyhow::bail!("not yet"),
        }
    });
    settled.await.unwrap();
    scene.crash(&next[0], 5).await;
    let second = scene.ended(&next[0], "Evacuated Evicted").await;
    assert_eq!(attempt(&second), "1");
}
