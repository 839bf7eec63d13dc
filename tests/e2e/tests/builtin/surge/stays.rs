//! Pods that stay after all, and are as they were.

use evacuation_e2e::{
    Scene,
    scene::{annotation, responder_named},
};
use std::collections::BTreeMap;

use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER, REPLACEMENT_TIMEOUT_ANNOTATION};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::workload::{Workload, scale, settled};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Waits until the pod is as it was before, and the only one.
pub(super) async fn is_as_before(scene: &Scene, before: &Pod) {
    let name = before.name_any();
    scene
        .pod_until(&name, "nothing of the release is left", |pod| {
            annotation(pod, RELEASED_ANNOTATION).is_none()
        })
        .await;
    let after = settled(scene, 1).await.remove(0);
    assert_eq!(after.uid(), before.uid(), "the old pod stayed");
    assert_eq!(after.labels(), before.labels());
    assert_eq!(after.annotations(), before.annotations());
    let owners = |pod: &Pod| -> BTreeMap<String, String> {
        let owners = pod.owner_references().iter();
        owners.map(|owner| (owner.name.clone(), owner.uid.clone())).collect()
    };
    assert_eq!(owners(&after), owners(before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_request_gives_the_pod_back_and_the_replacement_goes() {
    let scene = Scene::with("withdrawn", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    // The replacement takes long enough for the withdrawal to come while it is waited for, and is there when
    // it does.
    let workload = Workload::of(1).annotated("controlplane.test/running-after", "20s").annotated(COST, "-5");
    let pods = workload.deployment(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    evacuation.withdraw().await.unwrap();
    scene.acknowledged(&evacuation).await;
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_tells_what_would_be_done_and_releases_nothing() {
    let scene = Scene::with("rehearsed", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).annotated(COST, "-5").deployment(&scene).await;
    let requester = scene.requester("example.com/person");
    let limit = std::time::Duration::from_mins(5);
    let rehearsal = requester.rehearse(scene.namespace(), &pods[0].name_any(), limit).await.unwrap();
    let ended = scene.ends(rehearsal.name(), "Failed Rehearsed").await;
    let said = responder_named(&ended, REPLACEMENT_RESPONDER);
    assert_eq!((said.answer, said.reason.as_deref()), (Some(Answer::Delay), Some("Replacing")));
    assert!(said.message.as_ref().unwrap().contains("would make a replacement"), "{said:?}");
    scene.acknowledged(rehearsal.name()).await;
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_ready_pods_the_one_that_was_not_evacuated_stays() {
    let scene = Scene::with("accepted", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).deployment(&scene).await;
    // By its own cost it would be the first to be deleted.
    scene.annotate(&pods[0], &json!({COST: "-5"})).await;
    let before = scene.pod_until(&pods[0].name_any(), "it is there", |_| true).await;
    // Another budget forbids what the first allows: the eviction is held back although the replacement is
    // ready.
    scene.pods.budget("second", ("app", "web"), 0).await.unwrap();
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Accept).await;
    evacuation.withdraw().await.unwrap();
    scene.acknowledged(&evacuation).await;
    is_as_before(&scene, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_evacuation_gives_the_pod_back() {
    let scene = Scene::with("deleted", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let workload = Workload::of(1).annotated("controlplane.test/running-after", "20s");
    let pods = workload.deployment(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scene.pods.evacuations().delete(evacuation.name(), &DeleteParams::default()).await.unwrap();
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_cannot_be_scheduled_is_refused_by_name_and_the_pod_given_back() {
    let scene = Scene::with("nowhere", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let node = scene.own_node().await;
    let workload = Workload { node: Some(node.clone()), ..Workload::default() };
    let pods = workload.annotated(REPLACEMENT_TIMEOUT_ANNOTATION, "3").deployment(&scene).await;
    scene.cordon(&node, true).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    let answer = scene.answered(&evacuation, Answer::Refuse).await;
    assert_eq!(answer.reason.as_deref(), Some("ReplacementNotReady"));
    let message = answer.message.unwrap();
    assert!(message.contains("pod web-") && message.contains("Unschedulable"), "{message}");
    assert!(answer.retry_time > answer.answer_time);
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_workload_was_scaled_to_none_goes_when_it_is_given_back() {
    let scene = Scene::with("none", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).deployment(&scene).await;
    scene.pods.budget("second", ("app", "web"), 0).await.unwrap();
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Accept).await;
    scale::<Deployment>(&scene, 0).await;
    evacuation.withdraw().await.unwrap();
    scene.pods.gone(&pods[0]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_workload_is_gone_is_collected_with_it() {
    let scene = Scene::with("orphan", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).deployment(&scene).await;
    scene.pods.budget("second", ("app", "web"), 0).await.unwrap();
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Accept).await;
    scene.api::<Deployment>().delete("web", &DeleteParams::default()).await.unwrap();
    evacuation.withdraw().await.unwrap();
    scene.pods.gone(&pods[0]).await.unwrap();
}
