//! Stolen credentials of the project's own service accounts.

use controlplane::eventually;
use evacuation_api::{GATE_ASKED_ANNOTATION, GATE_RESPONDER, RESPONDERS_ANNOTATION};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, CONTROLLER, PATIENCE, annotation, quick, refused_saying},
};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// A platform with the built-in responders, one test at a time.
static PLATFORM: Pool = Pool::new(1, || PlatformOptions {
    components: vec!["built-in-responders".to_owned()],
    ..PlatformOptions::default()
});

/// The service account that plays the built-in responders.
const BUILT_IN: &str = "evacuation-built-in-responders";
/// Beginning of the policy's message.
const POLICY: &str = "ValidatingAdmissionPolicy 'evacuation-pod-updates'";
/// Namespace of the cluster's own pods.
const SYSTEM: &str = "kube-system";

/// Another image for a pod.
fn image() -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": "evil"}]}})
}

async fn patch(client: &Client, pod: &Pod, change: &Value, dry_run: bool) -> kube::Result<Pod> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
    let params = PatchParams { dry_run, ..PatchParams::default() };
    api.patch(&pod.name_any(), &params, &Patch::Strategic(change)).await
}

/// A pod of the cluster itself.
async fn system_pod(scene: &Scene) -> Pod {
    let pod = json!({
        "metadata": {"name": format!("victim-of-{}", scene.namespace())},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    let api: Api<Pod> = Api::namespaced(scene.admin(), SYSTEM);
    let created = eventually(PATIENCE, "the pod is created", || async {
        api.create(&PostParams::default(), &serde_json::from_value(pod.clone()).unwrap()).await
    });
    created.await.unwrap()
}

/// The users that changed a pod since the mark.
fn writers(scene: &Scene, mark: u64, pod: &Pod) -> Vec<String> {
    let events = scene.control_plane().audit_events_since(mark).unwrap().into_iter();
    let of_pod = events.filter(|event| event.resource() == "pods" && event.name() == pod.name_any());
    let writes = of_pod.filter(|event| ["patch", "update"].contains(&event.verb()) && event.code() == 200);
    writes.map(|event| event.user().to_owned()).filter(|user| user.contains("evacuation-")).collect()
}

/// The controller has no right to patch pods.
///
/// # Attack
///
/// - Attacker: a holder of the controller's credentials
/// - Act: patches the image of a pod in kube-system
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_credentials_change_no_pod() {
    let scene = Scene::from_pool("stolen", &PLATFORM).await;
    let (beside, victim) = tokio::join!(Bystander::new(&scene), system_pod(&scene));
    let mark = scene.control_plane().audit_mark().unwrap();
    let controller = scene.controller().await;
    let change = image();
    let (denied, ()) = tokio::join!(patch(&controller, &victim, &change, false), beside.drains(&scene));
    refused_saying(denied, 403, &format!("User \"{CONTROLLER}\" cannot patch resource \"pods\""));
    assert_eq!(writers(&scene, mark, &victim), Vec::<String>::new());
    let api: Api<Pod> = Api::namespaced(scene.admin(), SYSTEM);
    api.delete(&victim.name_any(), &DeleteParams::default()).await.unwrap();
}

/// The pod of a ReplicaSet as a Deployment makes it.
async fn owned_pod(scene: &Scene) -> Pod {
    let labels = json!({"app": "web", "pod-template-hash": "5f"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let set = json!({"metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    scene.create::<ReplicaSet>(set).await;
    let api = scene.pods.api();
    let found = eventually(PATIENCE, "the ReplicaSet has its pod", || async {
        let pods = api.list(&ListParams::default().labels("app=web")).await.unwrap().items;
        pods.into_iter().next().ok_or("none")
    });
    found.await.unwrap()
}

/// A record of a release from a ReplicaSet of that UID.
fn record(uid: &str) -> String {
    let label = json!({"key": "pod-template-hash", "value": "5f"});
    format!(r#"{{"label":{label},"replicaSet":{{"name":"web","uid":"{uid}"}}}}"#)
}

/// Changes of a pod that no built-in responder makes.
fn forbidden() -> Vec<Value> {
    let dead = "00000000-0000-4000-8000-000000000000";
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": dead});
    let metadata = |metadata: Value| json!({"metadata": metadata});
    vec![
        image(),
        metadata(json!({"labels": {"app": "other"}})),
        metadata(json!({"labels": {"more": ""}})),
        metadata(json!({"labels": {"pod-template-hash": null}})),
        metadata(json!({"labels": {"pod-template-hash": "6a"}})),
        metadata(json!({"annotations": {RESPONDERS_ANNOTATION: "[{\"name\":\"self\"}]"}})),
        metadata(json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}})),
        metadata(json!({"annotations": {"surge.evacuation.dev/released": record(dead)},
            "labels": {"pod-template-hash": null}})),
        metadata(json!({"finalizers": ["acme.io/keep"]})),
        metadata(json!({"ownerReferences": [owner]})),
    ]
}

/// A policy limits what the account of the built-in responders may patch.
///
/// # Attack
///
/// - Attacker: a holder of the credentials of the built-in responders
/// - Act: patches images, labels, finalizers and owners of pods
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn the_credentials_of_the_built_in_responders_change_no_more_than_these_need() {
    let scene = Scene::from_pool("limited", &PLATFORM).await;
    let (beside, victim, owned) = tokio::join!(Bystander::new(&scene), system_pod(&scene), owned_pod(&scene));
    let mark = scene.control_plane().audit_mark().unwrap();
    let thief = scene.unbound("evacuation-system", BUILT_IN).await;
    // A policy applies a moment after it was created.
    let applies = eventually(PATIENCE, "the policy applies", || async {
        match patch(&thief, &victim, &image(), true).await {
            Err(kube::Error::Api(status)) if status.message.contains(POLICY) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    applies.await.unwrap();
    let changes = async {
        for pod in [&victim, &owned] {
            for change in forbidden() {
                if pod.labels().is_empty()
                    && change.pointer("/metadata/labels/pod-template-hash") == Some(&Value::Null)
                {
                    // There is nothing to take off.
                    continue;
                }
                refused_saying(patch(&thief, pod, &change, false).await, 403, POLICY);
            }
        }
    };
    tokio::join!(changes, beside.drains(&scene));
    let status = json!({"status": {"phase": "Failed"}});
    let api: Api<Pod> = Api::namespaced(thief.clone(), SYSTEM);
    let params = PatchParams::default();
    let denied = api.patch_status(&victim.name_any(), &params, &Patch::Strategic(status)).await;
    refused_saying(denied, 403, "cannot patch resource \"pods/status\"");
    assert_eq!(writers(&scene, mark, &victim), Vec::<String>::new());
    assert_eq!(writers(&scene, mark, &owned), Vec::<String>::new());

    // The policy looks at nobody else's requests, and the responders do their work under it.
    patch(&scene.admin(), &victim, &image(), false).await.unwrap();
    scene.register("built-in", GATE_RESPONDER, json!({})).await;
    let pod = scene.pods.create("job-0", &quick(PodSpec::default())).await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    let told = |pod: &Pod| annotation(pod, GATE_ASKED_ANNOTATION) == Some(evacuation.name());
    scene.pod_until("job-0", "it was told", told).await;
    let api: Api<Pod> = Api::namespaced(scene.admin(), SYSTEM);
    api.delete(&victim.name_any(), &DeleteParams::default()).await.unwrap();
}

/// The codes of the API server's reads of ConfigMaps since the mark, in all namespaces and in the scene's.
fn reads(scene: &Scene, mark: u64) -> Vec<u16> {
    let events = scene.control_plane().audit_events_since(mark).unwrap().into_iter();
    let reads = events.filter(|event| {
        event.resource() == "configmaps"
            && event.user() == "system:serviceaccount:evacuation-system:evacuation-apiserver"
            && ["", scene.namespace()].contains(&event.namespace())
    });
    reads.map(|event| event.code()).collect()
}

/// ConfigMaps are params of policies only where a component says so.
///
/// # Attack
///
/// - Attacker: a holder of the API server's credentials
/// - Act: reads the ConfigMaps of every namespace
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn the_api_servers_credentials_read_no_config_maps() {
    let scene = Scene::from_pool("config-maps", &PLATFORM).await;
    let beside = Bystander::new(&scene).await;
    let mark = scene.control_plane().audit_mark().unwrap();
    let thief = scene.unbound("evacuation-system", "evacuation-apiserver").await;
    let theft = async {
        let all: Api<ConfigMap> = Api::all(thief.clone());
        refused_saying(all.list(&ListParams::default()).await, 403, "cannot list resource \"configmaps\"");
        let own: Api<ConfigMap> = Api::namespaced(thief, scene.namespace());
        refused_saying(own.get("kube-root-ca.crt").await, 403, "cannot get resource \"configmaps\"");
    };
    tokio::join!(theft, beside.drains(&scene));
    let codes = reads(&scene, mark);
    assert!(codes.len() >= 2 && codes.iter().all(|code| *code == 403), "{codes:?}");
}
