//! Pods that nobody can make a replacement for beside them.

use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER};
use evacuation_e2e::{PodSpec, Scene, scene::annotation};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

use crate::workload::Workload;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_stateful_set_is_accepted_with_the_reason_and_left_to_its_budget() {
    let scene = Scene::with("stateful", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let template = json!({"metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    scene
        .create::<StatefulSet>(
            json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 1,
            "selector": {"matchLabels": {"app": "db"}}, "template": template}}),
        )
        .await;
    let pod = scene.pod_until("db-0", "it is there", |_| true).await;
    scene.pods.ready("db-0").await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert_eq!(answer.reason.as_deref(), Some("NoReplacement"));
    let message = answer.message.unwrap();
    assert!(message.contains("StatefulSet db recreates the pod under the same name"), "{message}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_the_label_that_nothing_else_uses_is_accepted_with_the_reason_and_not_touched() {
    let scene = Scene::with("in-use", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).replica_set(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    let message = answer.message.unwrap();
    assert!(message.contains("does not select its pods by the label pod-template-hash"), "{message}");
    let name = pods[0].metadata.name.clone().unwrap();
    let pod = scene.pod_until(&name, "it is there", |_| true).await;
    assert_eq!(annotation(&pod, RELEASED_ANNOTATION), None);
    assert_eq!(pod.metadata.labels, pods[0].metadata.labels);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_a_controller_is_accepted_with_the_reason() {
    let scene = Scene::with("alone", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pod = scene.pods.create("one", &PodSpec::default()).await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert!(answer.message.unwrap().contains("no controller recreates the pod"));
    scene.ends(&evacuation, "Evacuated Evicted").await;
}
