//! Pods that move, their replacement ready before they go.

use evacuation_e2e::{Scene, scene::Availability};
use std::collections::BTreeSet;

use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::ResourceExt;
use serde_json::json;

use crate::workload::{Workload, is_owned, replicas, scale, settled};

#[tokio::test(flavor = "multi_thread")]
async fn story_2_a_single_replica_moves_without_downtime() {
    let scene = Scene::with("single", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert_eq!(answer.reason.as_deref(), Some("ReplacementReady"));
    let after = settled(&scene, 1).await;
    assert_ne!(after[0].uid(), pods[0].uid());
    assert_eq!(
        availability.bounds().await,
        (1, 2),
        "one is ready at every moment, and two only for a moment"
    );
    assert_eq!(replicas(&scene).await, Some(1));
    assert_eq!(after[0].annotations().get(RELEASED_ANNOTATION), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_replica_that_no_budget_guards_moves_without_downtime_too() {
    let scene = Scene::with("unguarded", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let workload = Workload { guarded: false, ..Workload::default() };
    let pods = workload.deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    settled(&scene, 1).await;
    assert_eq!(availability.bounds().await.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_are_evacuated_at_once_both_move_without_a_gap() {
    let scene = Scene::with("both", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(2).deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    let (first, second) = tokio::join!(scene.evacuate(&pods[0]), scene.evacuate(&pods[1]));
    tokio::join!(scene.ends(&first, "Evacuated Evicted"), scene.ends(&second, "Evacuated Evicted"));
    let after = settled(&scene, 2).await;
    let uids = |pods: &[k8s_openapi::api::core::v1::Pod]| -> BTreeSet<_> {
        pods.iter().filter_map(ResourceExt::uid).collect()
    };
    assert!(uids(&pods).is_disjoint(&uids(&after)));
    assert!(availability.bounds().await.0 >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_bare_replica_set_is_released_by_its_template_hash_and_stays_behind_its_service() {
    let scene = Scene::with("bare", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    scene
        .create::<Service>(json!({"metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}))
        .await;
    let workload =
        Workload { labels: json!({"app": "web", "pod-template-hash": "1"}), ..Workload::default() };
    let pods = workload.annotated("controlplane.test/running-after", "10s").replica_set(&scene).await;
    let availability = Availability::watch(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    let released = scene.pod_until(&pods[0].name_any(), "it is released", |pod| !is_owned(pod)).await;
    let labels: Vec<&str> = released.labels().keys().map(String::as_str).collect();
    assert_eq!(labels, ["app"]);
    scene.ends(&evacuation, "Evacuated Evicted").await;
    settled(&scene, 1).await;
    assert!(availability.bounds().await.0 >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_during_the_surge_is_followed_and_never_undone() {
    let scene = Scene::with("scaled", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let node = scene.own_node().await;
    let workload = Workload { node: Some(node.clone()), ..Workload::default() };
    let pods = workload.deployment(&scene).await;
    scene.cordon(&node, true).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scale::<Deployment>(&scene, 3).await;
    scene.cordon(&node, false).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let after = settled(&scene, 3).await;
    assert!(after.iter().all(|pod| pod.uid() != pods[0].uid()));
    assert_eq!(replicas(&scene).await, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_single_replica_that_its_budget_holds_is_drained() {
    let scene = Scene::with("drained", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let workload =
        Workload { labels: json!({"app": "web", "test": scene.namespace()}), ..Workload::default() };
    let pods = workload.deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    let node = pods[0].spec.clone().unwrap().node_name.unwrap();
    // The node has pods of other tests.
    let selector = format!("--pod-selector=test={}", scene.namespace());
    let drain = ["evacuate", "node", &node, &selector, "--timeout=1m"];
    let output = scene.platform().kubectl(&drain).await.unwrap();
    scene.cordon(&node, false).await;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let after = settled(&scene, 1).await;
    assert_ne!(after[0].spec.clone().unwrap().node_name, Some(node));
    assert_eq!(availability.bounds().await.0, 1);
}
