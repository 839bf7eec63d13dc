//! Pods that come back under their names on another node.

use controlplane::{Output, eventually, output_of};
use evacuation_api::Evacuation;
use evacuation_e2e::{
    Scene,
    scene::{Bystander, PATIENCE, answer},
    workload,
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::impostor::GATEWAY;

/// Adds a node for the scene's pods.
async fn node(scene: &Scene, name: &str) -> String {
    let name = format!("{name}-of-{}", scene.namespace());
    scene.control_plane().add_node(&name, &[("for", scene.namespace())]).await.unwrap();
    name
}

/// Creates the StatefulSet `db`, whose pods register `self`, go at once and run on the scene's nodes.
async fn stateful_set(scene: &Scene) {
    let annotations = json!({
        "evacuation.dev/responders": "[{\"name\":\"self\"}]",
        "controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms",
    });
    let mut set = workload("db", 1, &annotations);
    set["spec"]["serviceName"] = json!("db");
    let spec = &mut set["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"for": scene.namespace()});
    spec["tolerations"] = controlplane::tolerations();
    scene.create::<StatefulSet>(set).await;
}

/// Starts plain `kubectl drain` of a node.
fn drain(scene: &Scene, node: &str) -> JoinHandle<Output> {
    let mut command = scene.platform().kubectl_command();
    command.args(["drain", node, "--ignore-daemonsets", "--timeout=110s"]);
    tokio::spawn(async move { output_of("kubectl", command).await.unwrap() })
}

async fn all_evacuations(scene: &Scene) -> Vec<Evacuation> {
    scene.evacuations().list(&ListParams::default()).await.unwrap().items
}

/// Waits until a pod is asked that has this UID.
async fn asked(scene: &Scene, pod: &Pod) -> Evacuation {
    let found = eventually(PATIENCE, "the pod is asked", || async {
        let mut all = all_evacuations(scene).await;
        all.retain(|evacuation| evacuation.spec.target.pod.uid == pod.uid());
        all.pop().ok_or("no evacuation")
    });
    let evacuation = found.await.unwrap();
    scene.reached(&evacuation, 0).await
}

/// Lets the app of a pod accept.
async fn accept(scene: &Scene, pod: &Pod, evacuation: &Evacuation) {
    answer(&scene.client_of(pod).await, evacuation, json!({"answer": "Accept"})).await.unwrap();
}

/// Returns the codes of the evictions of `db-0` that kubectl asked for since a mark.
fn codes(scene: &Scene, mark: u64) -> Vec<u16> {
    let mut events = scene.control_plane().audit_events_since(mark).unwrap();
    events.retain(|event| {
        event.namespace() == scene.namespace() && event.subresource() == "eviction" && event.user() == "admin"
    });
    events.iter().map(controlplane::AuditEvent::code).collect()
}

/// `kubectl drain` counts a 404 as success.
///
/// # Attack
///
/// - Attacker: a user who drains two nodes, one right after the other
/// - Act: takes the end of a StatefulSet's pod on the first node for that of its successor on the second
/// - Promise: 10
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_the_next_node_asks_the_successor_and_a_retry_of_the_first_drain_does_not() {
    let scene = Scene::from_pool("successor", &GATEWAY).await;
    let (beside, first) = tokio::join!(Bystander::new(&scene), node(&scene, "first"));
    stateful_set(&scene).await;
    let before = scene.only_pod("db", None).await;
    let second = node(&scene, "second").await;
    let drained = drain(&scene, &first);
    let moved = asked(&scene, &before).await;
    assert_eq!(moved.status.as_ref().unwrap().node_name.as_deref(), Some(first.as_str()));
    accept(&scene, &before, &moved).await;
    let successor = scene.only_pod("db", Some(&before)).await;
    assert_eq!(successor.spec.as_ref().unwrap().node_name.as_deref(), Some(second.as_str()));
    let drained = drained.await.unwrap();
    assert!(drained.success(), "{drained:?}");
    assert_eq!(all_evacuations(&scene).await.len(), 1, "the first drain asks no pod of another node");

    // The end of the first pod is a few seconds old.
    let mark = scene.control_plane().audit_mark().unwrap();
    let third = node(&scene, "third").await;
    let drained = drain(&scene, &second);
    let moved = asked(&scene, &successor).await;
    beside.drains(&scene).await;
    assert!(scene.stays(&successor).await && !drained.is_finished());
    let told = codes(&scene, mark);
    assert!(!told.is_empty() && told.iter().all(|code| *code == 429), "{told:?}");
    accept(&scene, &successor, &moved).await;
    let last = scene.only_pod("db", Some(&successor)).await;
    assert_eq!(last.spec.as_ref().unwrap().node_name.as_deref(), Some(third.as_str()));
    let drained = drained.await.unwrap();
    assert!(drained.success(), "{drained:?}");
    assert_eq!(all_evacuations(&scene).await.len(), 2);
    assert!(scene.stays(&last).await);
}
