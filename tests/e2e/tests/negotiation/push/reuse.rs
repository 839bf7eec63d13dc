//! Addresses that become another pod's.

use evacuation_e2e::{Endpoint, PodSpec, Reply, Scene, answering, scene::first};

use evacuation_api::ReviewAction;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn address(pod: &Pod) -> String {
    pod.status.as_ref().unwrap().pod_ip.clone().unwrap()
}

/// Gives a pod an address.
async fn readdress(scene: &Scene, pod: &Pod, address: &str) -> Pod {
    let patch = Patch::Merge(json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}}));
    let api = scene.pods.api();
    api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_pod_that_was_replaced_meanwhile_is_not_taken() {
    let scene = Scene::new("late-answer").await;
    let old = scene.pod("db-0", PodSpec::pushed(scene.port)).await;
    let replaced = CancellationToken::new();
    let held = replaced.clone();
    let endpoint = Endpoint::of(&old, scene.port, move |question| {
        Reply::Held(held.clone(), answering(question, json!({"answer": "Accept"})))
    })
    .await
    .unwrap();
    let evacuation = scene.ask(&old, json!({})).await;
    endpoint.hears(ReviewAction::Ask).await.unwrap();
    scene.delete_pod("db-0").await;
    scene.pods.gone(&old).await.unwrap();
    let new = scene.pod("db-0", PodSpec::pushed(scene.port)).await;
    // The answer comes from an address that is the new pod's by now.
    let new = readdress(&scene, &new, &address(&old)).await;
    replaced.cancel();
    let ended = scene.ends(&evacuation, "Evacuated GoneByOther").await;
    assert_eq!(first(&ended).answer, None);

    // The new pod is asked for itself, and its answer is its own.
    let again = scene.ask(&new, json!({})).await;
    let ended = scene.ends(&again, "Evacuated Evicted").await;
    assert_eq!(ended.spec.target.pod.uid, new.uid());
    let mut asked: Vec<_> = endpoint.asked().into_iter().map(|question| question.pod.uid).collect();
    // The controller asks again when the replacement takes longer than an exchange may.
    asked.dedup();
    assert_eq!(asked, [old.uid().unwrap(), new.uid().unwrap()]);
    assert_eq!(scene.evictions("db-0").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_got_the_address_of_the_target_is_not_asked_in_its_place() {
    let scene = Scene::new("taken-over").await;
    let spec = || {
        PodSpec::registered(&json!([{"name": "self", "http": {"port": scene.port}, "timeoutSeconds": 600}]))
    };
    let (target, heir) = tokio::join!(scene.pod("target", spec()), scene.pod("heir", spec()));
    // Nobody listens, so the question is still to be asked when the target goes.
    let evacuation = scene.ask(&target, json!({})).await;
    scene.event("Pod", "target", "PushFailed").await;
    scene.finalizers(&target, &["test.evacuation.dev/hold"]).await;
    scene.delete_pod("target").await;
    scene.finalizers(&target, &[]).await;
    scene.pods.gone(&target).await.unwrap();
    let heir = readdress(&scene, &heir, &address(&target)).await;
    let endpoint = Endpoint::of(&heir, scene.port, |question| {
        Reply::Json(answering(question, json!({"answer": "Refuse"})))
    })
    .await
    .unwrap();
    let ended = scene.ends(&evacuation, "Evacuated GoneByOther").await;
    assert_eq!(first(&ended).answer, None);

    let own = scene.ask(&heir, json!({"onRefusal": "GiveUp"})).await;
    scene.ends(&own, "Failed Refused").await;
    let pods: Vec<_> = endpoint.asked().into_iter().map(|question| question.pod.name).collect();
    assert!(pods.iter().all(|pod| pod == "heir"), "{pods:?}");
    assert!(scene.stays(&heir).await);
}
