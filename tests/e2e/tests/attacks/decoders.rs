//! Objects that the kube-apiserver takes and a typed decoder refuses.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, User, answer, quick, refused_saying},
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{
    Api, Resource,
    api::{DeleteParams, EvictParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    tenant::tenant,
    unreadable::{PLATFORM, restart},
};

/// A time that Go's decoder takes, and one of Rust does not.
const TIME: &str = "9999-12-31T23:59:59Z";

/// Managed fields of that time, in a tree that is deeper than decoders follow.
fn managed() -> Value {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"f:x": inner}));
    json!([{
        "manager": "m", "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:zzz": {}}, "f:annotations": deep}},
    }])
}

/// Writes the managed fields into an object, as its tenant.
async fn poison<K>(tenant: &User, scene: &Scene, name: &str)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(tenant.client.clone(), scene.namespace());
    // A change of the managed fields alone is none.
    let patch = json!({"metadata": {"labels": {"changed": "yes"}, "managedFields": managed()}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let kind = K::plural(&()).into_owned();
    let arguments = ["get", &kind, name, "-n", scene.namespace(), "-o", "json", "--show-managed-fields"];
    let shown = scene.platform().kubectl(&arguments).await.unwrap().stdout;
    assert!(shown.contains(TIME), "the kube-apiserver keeps it: {shown}");
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

    poison::<k8s_openapi::api::core::v1::Pod>(&tenant, &scene, "app").await;
    poison::<PodDisruptionBudget>(&tenant, &scene, "none").await;
    is_held(&scene, "app").await;
    beside.drains(&scene).await;

    // Each process lists everything again.
    restart(&scene).await;
    is_held(&scene, "app").await;
    let drain = later.drainer().prepares(&node).await;
    later.drainer().resumes(&drain).await;
    later.drains(&scene).await;
    assert!(scene.stays(&pod).await);
    answer(&app, &asked, json!({"answer": "Accept"})).await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
}
