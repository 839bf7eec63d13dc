//! Selection of the pods that are asked, and the time of each question.

use chrono::TimeDelta;
use evacuation_api::RefusalPolicy;
use kube::ResourceExt;
use serde_json::json;

use crate::crashes::{AFTER, AFTER_RESTARTS, Crashes, ENABLED, attempt, condition, created};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_past_its_number_of_restarts_is_evacuated_and_one_below_or_that_did_not_opt_in_is_not() {
    let scene = Crashes::new("restarts").await;
    let five = json!({AFTER_RESTARTS: "5"});
    let no = json!({});
    let (past, below, silent) = tokio::join!(
        scene.deployment("past", 1, &five),
        scene.deployment("below", 1, &five),
        scene.deployment("silent", 1, &no),
    );
    scene.crash(&below[0], 4).await;
    scene.crash(&silent[0], 50).await;
    scene.crash(&past[0], 5).await;

    let evacuation = scene.ended(&past[0], "Evacuated Evicted").await;
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(entry.name, "refresh.evacuation.dev/crash-loop");
    assert_eq!(entry.reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(entry.on_refusal, Some(RefusalPolicy::GiveUp));
    let message =
        "container app was restarted 5 times, last with exit code 42; attempt 1 for Deployment past";
    assert_eq!(entry.message.as_deref(), Some(message));
    assert_eq!(attempt(&evacuation), "1");
    assert_eq!(scene.event_on(&past[0], "Refreshing", "").await, message);
    for pod in [&below[0], &silent[0]] {
        assert!(scene.evacuations_of(pod).await.is_empty());
        assert!(scene.stays(pod).await, "{}", pod.name_any());
    }
    // The next restart is one too many.
    scene.crash(&below[0], 5).await;
    scene.ended(&below[0], "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_label_of_a_namespace_opts_its_pods_in_and_a_pod_can_opt_out_or_choose_another_number() {
    let scene = Crashes::new("label").await;
    let (none, out, own) = (json!({}), json!({ENABLED: "false"}), json!({AFTER_RESTARTS: "20"}));
    let (labelled, out, own) = tokio::join!(
        scene.deployment("labelled", 1, &none),
        scene.deployment("out", 1, &out),
        scene.deployment("own", 1, &own),
    );
    for pod in [&labelled[0], &out[0], &own[0]] {
        scene.crash(pod, 10).await;
    }
    scene.mark_namespace(&json!({"labels": {ENABLED: "true"}, "annotations": {AFTER_RESTARTS: "11"}})).await;
    // The namespace's number counts, until it is gone and the built-in one does: 10.
    scene.crash(&own[0], 19).await;
    assert!(scene.evacuations_of(&labelled[0]).await.is_empty());
    scene.mark_namespace(&json!({"annotations": {AFTER_RESTARTS: null}})).await;
    scene.ended(&labelled[0], "Evacuated Evicted").await;
    for pod in [&out[0], &own[0]] {
        assert!(scene.evacuations_of(pod).await.is_empty());
        assert!(scene.stays(pod).await, "{}", pod.name_any());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_past_its_time_is_evacuated_and_not_before() {
    let scene = Crashes::new("time").await;
    let pods = scene.deployment("web", 1, &json!({AFTER: "5s"})).await;
    scene.crash(&pods[0], 1).await;
    let crashed = scene.pods.api().get(&pods[0].name_any()).await.unwrap();
    let (_, since) = condition(&crashed, "ContainersReady").unwrap();
    let evacuation = scene.ended(&pods[0], "Evacuated Evicted").await;
    let waited = created(&evacuation) - since.unwrap();
    assert!(waited >= TimeDelta::seconds(5), "{waited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_of_an_init_container_counts() {
    let scene = Crashes::new("init").await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash_init(&pods[0], 5).await;
    let evacuation = scene.ended(&pods[0], "Evacuated Evicted").await;
    let message = evacuation.spec.requesters[0].message.clone().unwrap();
    assert!(message.starts_with("container init was restarted 5 times"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_cannot_be_read_is_told_and_the_pod_is_left_alone() {
    let scene = Crashes::new("unreadable").await;
    let (broken, good) = (json!({AFTER_RESTARTS: "five"}), json!({AFTER_RESTARTS: "5"}));
    let (broken, good) =
        tokio::join!(scene.deployment("broken", 1, &broken), scene.deployment("good", 1, &good),);
    let told = scene.event_on(&broken[0], "UnreadableRefresh", "").await;
    let expected = "the pod is not refreshed: the annotation refresh.evacuation.dev/after-restarts of the pod cannot be read: \
                    \"five\" is not a whole number of at least 1";
    assert_eq!(told, expected);
    scene.crash(&broken[0], 50).await;
    scene.crash(&good[0], 5).await;
    scene.ended(&good[0], "Evacuated Evicted").await;
    assert!(scene.stays(&broken[0]).await);
}
