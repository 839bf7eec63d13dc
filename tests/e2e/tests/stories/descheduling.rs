//! Story 4: a descheduler moves a pod to a better node, and the app finishes its work before.

use evacuation_e2e::{PodSpec, Scene, scene::PATIENCE};
use std::{sync::Arc, time::Duration};

use evacuation_api::RefusalPolicy;
use evacuation_client::{Answer, End, Question};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use tokio::sync::Notify;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_rebalanced_finishes_its_work_and_another_takes_its_place() {
    let scene = Scene::new("descheduler").await;
    let spec = PodSpec::watching();
    let template = json!({
        "metadata": {"labels": {"app": "worker"}, "annotations": {
            "evacuation.dev/responders": spec.responders, "controlplane.test/running-after": "100ms",
            "controlplane.test/gone-after": "100ms",
        }},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    let _: ReplicaSet = scene
        .create(json!({
            "metadata": {"name": "worker"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "worker"}}, "template": template},
        }))
        .await;
    let old = scene.only_pod("worker", None).await;
    let finished = Arc::new(Notify::new());
    let work = Arc::clone(&finished);
    let _app = scene
        .app(&old, move |question: Question| {
            let work = Arc::clone(&work);
            async move {
                question.hold(Duration::from_secs(20), work.notified()).await.unwrap();
                Answer::accept()
            }
        })
        .await;

    let descheduler = scene
        .requester("descheduler.acme.io/low-node-utilization")
        .reason("Rebalancing")
        .on_refusal(RefusalPolicy::GiveUp);
    let evacuation = descheduler.evacuate_pod(&old).await.unwrap();
    scene
        .until(evacuation.name(), "the app finishes its work", |e| {
            evacuation_protocol::state_word(e) == "Delayed"
        })
        .await;
    assert!(scene.stays(&old).await);
    assert_eq!(scene.all_evictions().len(), 0);
    finished.notify_one();
    let end = tokio::time::timeout(PATIENCE, evacuation.wait()).await.unwrap().unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    let new = scene.only_pod("worker", Some(&old)).await;
    assert_ne!(new.uid(), old.uid());
    let asked = scene.pods.evacuations().list(&ListParams::default()).await.unwrap();
    assert_eq!(asked.items.len(), 1, "the new one is left alone");
}
