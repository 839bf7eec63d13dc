//! `gate.evacuation.dev/condition`.

use evacuation_api::{
    Answer, GATE_ASKED_ANNOTATION, GATE_CONDITION_TYPE_ANNOTATION, GATE_MESSAGE_ANNOTATION,
    GATE_OPEN_ANNOTATION, GATE_OPEN_CONDITION, GATE_RESPONDER,
};
use evacuation_client::EvacuationHandle;
use evacuation_e2e::{PodSpec, Scene, scene::annotation};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// A pod with a gate that was asked to move, and knows it.
async fn waiting(scene: &Scene, spec: PodSpec) -> (Pod, EvacuationHandle) {
    scene.register("built-in", GATE_RESPONDER, json!({})).await;
    let pod = scene.pods.create("job-0", &spec).await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    told(scene, Some(evacuation.name())).await;
    scene.answered(&evacuation, Answer::Delay).await;
    (pod, evacuation)
}

/// Waits until the pod was told of that Evacuation, or of none.
async fn told(scene: &Scene, evacuation: Option<&str>) -> Pod {
    scene.pod_until("job-0", "it was told", |pod| annotation(pod, GATE_ASKED_ANNOTATION) == evacuation).await
}

/// The app's own tooling sets a condition of the pod.
async fn set_condition(scene: &Scene, pod: &Pod, kind: &str) {
    let condition = json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    scene.pods.api().patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn story_6_a_pod_goes_only_after_its_checkpoint_was_taken() {
    let scene = Scene::with("checkpoint", crate::options).await;
    let (pod, evacuation) = waiting(&scene, PodSpec::default()).await;
    set_condition(&scene, &pod, GATE_OPEN_CONDITION).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert_eq!(answer.reason.as_deref(), Some("GateOpen"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_may_name_the_condition_that_opens_its_gate() {
    let scene = Scene::with("named", crate::options).await;
    let spec = PodSpec::default().annotation(GATE_CONDITION_TYPE_ANNOTATION, "acme.io/Saved");
    let (pod, evacuation) = waiting(&scene, spec).await;
    set_condition(&scene, &pod, "acme.io/Saved").await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert!(answer.message.unwrap().contains("acme.io/Saved"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_the_evacuation_opens_the_gate_and_that_of_another_does_not() {
    let scene = Scene::with("by-name", crate::options).await;
    let spec = PodSpec::default().annotation(GATE_OPEN_ANNOTATION, "an-earlier-one");
    let (pod, evacuation) = waiting(&scene, spec).await;
    scene.annotate(&pod, &json!({GATE_OPEN_ANNOTATION: evacuation.name()})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_open_already_holds_nobody_up() {
    let scene = Scene::with("open", crate::options).await;
    scene.register("built-in", GATE_RESPONDER, json!({})).await;
    let spec = PodSpec::default().annotation(GATE_OPEN_ANNOTATION, "true");
    let pod = scene.pods.create("job-0", &spec).await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_shut_refuses_with_its_message_and_may_still_open() {
    let scene = Scene::with("shut", crate::options).await;
    let (pod, evacuation) = waiting(&scene, PodSpec::default()).await;
    let shut = json!({GATE_OPEN_ANNOTATION: "false", GATE_MESSAGE_ANNOTATION: "a backup runs"});
    scene.annotate(&pod, &shut).await;
    let answer = scene.answered(&evacuation, Answer::Refuse).await;
    assert_eq!(answer.message.as_deref(), Some("a backup runs"));
    scene.annotate(&pod, &json!({GATE_OPEN_ANNOTATION: "true"})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_told_when_nobody_asks_any_more() {
    let scene = Scene::with("canceled", crate::options).await;
    let (pod, evacuation) = waiting(&scene, PodSpec::default()).await;
    evacuation.withdraw().await.unwrap();
    scene.acknowledged(&evacuation).await;
    let after = told(&scene, None).await;
    assert_eq!(after.uid(), pod.uid());
    assert_eq!(after.annotations(), pod.annotations());
}
