//! Plain `kubectl delete pod` succeeds when the pod is deleted: its own retry deletes it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use controlplane::eventually;
use evacuation_client::{Answer, Question};
use evacuation_e2e::{
    PodSpec,
    scene::{PATIENCE, answer, end_of, refused_saying},
};
use evacuation_protocol::left_to_callers_until;
use kube::api::DeleteParams;
use serde_json::json;

use crate::stage::{Stage, run, start};

/// The user of plain kubectl.
const ADMIN: &str = "admin";

/// Returns the codes of the tries to delete that pod, without those of others.
fn codes(stage: &Stage, pod: &str) -> Vec<u16> {
    let tries = stage.deletions(pod).into_iter().filter(|call| call.user() == ADMIN);
    tries.map(|call| call.code()).collect()
}

/// Asserts that the retry of the deletion deleted the pod, and nobody evicted it.
async fn assert_deleted_by_its_caller(stage: &Stage, pod: &str) {
    let codes = codes(stage, pod);
    let (last, before) = codes.split_last().expect("the pod was deleted");
    assert_eq!(*last, 200, "{codes:?}");
    assert!(!before.is_empty() && before.iter().all(|code| *code == 429), "{codes:?}");
    let evacuation = stage.evacuation_of(pod).await;
    stage.ends(&evacuation, "Evacuated GoneByOther").await;
    assert!(stage.evictions(pod).is_empty(), "the controller left the pod to its caller");
}

async fn accept(_: Question) -> Answer {
    Answer::accept()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_an_app_that_accepts_at_once_succeeds() {
    let stage = Stage::new("accepts").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let _app = stage.app(&pod, accept).await;
    let deleted = run(stage.kubectl(&["delete", "pod", "app"])).await;
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&pod).await.unwrap();
    assert_deleted_by_its_caller(&stage, "app").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_a_pod_that_nobody_can_answer_for_succeeds() {
    let stage = Stage::new("nobody").await;
    stage.label_namespace(&[("gateway.evacuation.dev/ask", "all")]).await;
    let pod = stage.app_pod("plain", PodSpec::default()).await;
    let deleted = run(stage.kubectl(&["delete", "pod", "plain"])).await;
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&pod).await.unwrap();
    assert_deleted_by_its_caller(&stage, "plain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_two_pods_at_once_succeeds() {
    let stage = Stage::new("two").await;
    let pods =
        [stage.app_pod("one", PodSpec::watching()).await, stage.app_pod("two", PodSpec::watching()).await];
    let _apps = [stage.app(&pods[0], accept).await, stage.app(&pods[1], accept).await];
    let deleted = run(stage.kubectl(&["delete", "pod", "one", "two"])).await;
    assert!(deleted.success(), "{deleted:?}");
    for (pod, name) in pods.iter().zip(["one", "two"]) {
        stage.pods.gone(pod).await.unwrap();
        assert_deleted_by_its_caller(&stage, name).await;
    }
}

/// Ten tries last longer than the default timeout of 60 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_an_app_that_stays_silent_succeeds_after_its_timeout() {
    let stage = Stage::new("silent").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let began = Instant::now();
    let deleted = run(stage.kubectl(&["delete", "pod", "app"])).await;
    assert!(deleted.success(), "{deleted:?}");
    assert!(began.elapsed() >= Duration::from_mins(1), "{:?}", began.elapsed());
    stage.pods.gone(&pod).await.unwrap();
    assert_deleted_by_its_caller(&stage, "app").await;
}

/// A client that repeats nothing gets its wish, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_caller_does_not_come_back_is_evicted_after_its_time() {
    let stage = Stage::new("away").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let once = stage.pods.api().delete("app", &DeleteParams::default()).await;
    refused_saying(once, 429, "responder self was asked");
    let evacuation = stage.evacuation_of("app").await;
    stage.reached(&evacuation, 0).await;
    let app = stage.client_of(&pod).await;
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let left = stage.until(&evacuation, "the pod is left to its caller", |e| {
        let eviction = e.status.as_ref().and_then(|status| status.eviction.as_ref());
        eviction.is_some_and(|eviction| eviction.attempts == 0 && eviction.next_attempt_time.is_some())
    });
    let until = left.await.status.unwrap().eviction.unwrap().next_attempt_time.unwrap().0;
    stage.ends(&evacuation, "Evacuated Evicted").await;
    assert!(stage.evicted_at("app") >= until - chrono::TimeDelta::seconds(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_drain_wants_too_is_not_left_to_the_caller_of_a_deletion() {
    let stage = Stage::new("both").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let once = stage.pods.api().delete("app", &DeleteParams::default()).await;
    refused_saying(once, 429, "responder self was asked");
    let evacuation = stage.evacuation_of("app").await;
    let drain = start(stage.drain(&["--timeout=90s"]));
    stage.until(&evacuation, "the drain joins", |e| e.spec.requesters.len() == 2).await;
    stage.reached(&evacuation, 0).await;
    let app = stage.client_of(&pod).await;
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let left = AtomicBool::new(false);
    let ended = stage.until(&evacuation, "the evacuation has ended", |e| {
        left.fetch_or(left_to_callers_until(e).is_some(), Ordering::Relaxed);
        end_of(e).is_some()
    });
    assert_eq!(end_of(&ended.await).as_deref(), Some("Evacuated Evicted"));
    assert!(!left.into_inner(), "the controller waits for nobody");
    assert!(drain.await.unwrap().success());
}

/// The drain has the pod evicted, and the deletion's next try finds that it terminates.
async fn grace_after_a_retry(prefix: &str, arguments: &[&str]) -> Option<i64> {
    let stage = Stage::new(prefix).await;
    let stays = PodSpec::watching().annotation("controlplane.test/gone-after", "1h");
    let pod = stage.app_pod("app", stays).await;
    let deleting = start(stage.kubectl(&[&["delete", "pod", "app"], arguments].concat()));
    let evacuation = stage.evacuation_of("app").await;
    let drain = start(stage.drain(&["--timeout=90s"]));
    stage.until(&evacuation, "the drain joins", |e| e.spec.requesters.len() == 2).await;
    stage.reached(&evacuation, 0).await;
    let app = stage.client_of(&pod).await;
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();

    let grace = async || stage.pods.api().get("app").await.unwrap().metadata.deletion_grace_period_seconds;
    let terminates = eventually(PATIENCE, "the pod terminates", || async { grace().await.ok_or("it runs") });
    let first = terminates.await.unwrap();
    let retried = eventually(PATIENCE, "the deletion is tried again", || async {
        let codes = codes(&stage, "app");
        if codes.last() == Some(&200) { Ok(()) } else { Err(format!("{codes:?}")) }
    });
    retried.await.unwrap();
    assert!(stage.evictions("app").iter().any(|call| call.code() == 201), "the drain's eviction came first");
    let kept = grace().await;
    assert_eq!(kept, Some(first), "the retry changed the grace period");

    let end = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    stage.pods.api().delete("app", &end).await.unwrap();
    assert!(deleting.await.unwrap().success());
    assert!(drain.await.unwrap().success());
    kept
}

/// A deletion with a shorter grace period shortens that of a pod that terminates.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_deletion_leaves_the_grace_period_of_a_terminating_pod() {
    assert_eq!(grace_after_a_retry("own-grace", &[]).await, Some(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_the_grace_period_of_a_deletion_from_the_eviction_and_not_from_a_retry() {
    assert_eq!(grace_after_a_retry("short-grace", &["--grace-period=20"]).await, Some(20));
}
