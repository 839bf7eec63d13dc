//! Objects that the kube-apiserver takes and a typed decoder refuses.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, User, answer, quick, refused_saying},
};
use http::Request;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams};
use serde_json::{Value, json};

use crate::{
    tenant::tenant,
    unreadable::{PLATFORM, restart},
};

/// A time that Go's decoder takes, and one of Rust does not.
const TIME: &str = "9999-12-31T23:59:59Z";

/// Managed fields of that time, in a tree that is deeper than decoders follow.
fn managed(version: &str) -> Value {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"f:x": inner}));
    json!([{
        "manager": "m", "operation": "Update", "apiVersion": version, "time": TIME, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:zzz": {}}, "f:annotations": deep}},
    }])
}

/// Writes the managed fields into an object of that version, as its tenant.
async fn poison(tenant: &User, scene: &Scene, version: &str, name: &str) {
    let root = if version == "v1" { "api" } else { "apis" };
    let path = format!("/{root}/{version}/namespaces/{}/{name}", scene.namespace());
    // A change of the managed fields alone is none.
    let change = json!({"metadata": {"labels": {"changed": "yes"}, "managedFields": managed(version)}});
    let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
    tenant.client.request_text(request.body(change.to_string().into_bytes()).unwrap()).await.unwrap();
    let stored = tenant.client.request_text(Request::get(&path).body(Vec::new()).unwrap()).await.unwrap();
    assert!(stored.contains(TIME), "the kube-apiserver keeps it: {stored}");
}

/// Returns true while a pod is there that is not being deleted.
async fn stays(scene: &Scene, pod: &str) -> bool {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", scene.namespace());
    let stored = scene.admin().request_text(Request::get(&path).body(Vec::new()).unwrap()).await.unwrap();
    !stored.contains("deletionTimestamp")
}

/// Neither an eviction nor a deletion of the pod passes.
async fn is_held(scene: &Scene, pod: &str) {
    let api = scene.pods.api();
    refused_saying(api.evict(pod, &EvictParams::default()).await, 429, "asked for time");
    refused_saying(api.delete(pod, &DeleteParams::default()).await, 429, "asked for time");
}

/// What nobody reads is not decoded.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: writes a time and a tree into the managed fields of a pod and a budget that typed decoders refuse,
///   so that no list and no watch of them ends, and no review of the pod is read
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn managed_fields_that_a_decoder_refuses_open_no_gate_and_stop_no_drain() {
    let scene = Scene::from_pool("decoders", &PLATFORM).await;
    let (beside, later, tenant, node) =
        tokio::join!(Bystander::new(&scene), Bystander::new(&scene), tenant(&scene), scene.own_node());
    let pod = scene.pods.create("app", &quick(PodSpec::watching()).on(&node)).await.unwrap();
    let app = scene.client_of(&pod).await;
    let asked = scene.ask_and_reach(&pod, json!({})).await;
    answer(&app, &asked, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();
    let budget = json!({
        "metadata": {"name": "none"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "none"}}},
    });
    scene.create::<PodDisruptionBudget>(budget).await;
    is_held(&scene, "app").await;

    poison(&tenant, &scene, "v1", "pods/app").await;
    poison(&tenant, &scene, "policy/v1", "poddisruptionbudgets/none").await;
    is_held(&scene, "app").await;
    beside.drains(&scene).await;

    // Each process lists everything again.
    restart(&scene).await;
    is_held(&scene, "app").await;
    let drain = later.drainer().prepares(&node).await;
    later.drainer().resumes(&drain).await;
    later.drains(&scene).await;
    assert!(stays(&scene, "app").await);
    scene.left_alone("app");
    answer(&app, &asked, json!({"answer": "Accept"})).await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
    scene.evicted_once("app");
}
