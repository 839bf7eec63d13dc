//! Reviews that the kube-apiserver did not send.

use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, quick},
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// A platform with a gateway.
pub(crate) static GATEWAY: Pool = Pool::new(1, || {
    let configuration =
        "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n".to_owned();
    PlatformOptions { gateway: Some(configuration), ..PlatformOptions::default() }
});

/// Verbs of the gateway that change nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// A review of the deletion of that pod by an autoscaler. Its pod has an annotation that the live pod lacks.
pub(crate) fn review(pod: &Pod) -> Value {
    let mut told = serde_json::to_value(pod).unwrap();
    told["apiVersion"] = json!("v1");
    told["kind"] = json!("Pod");
    told["metadata"]["annotations"]["evacuation.dev/responders"] = json!(r#"[{"name":"self"}]"#);
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod.name_any(), "namespace": pod.namespace(), "operation": "DELETE",
        "userInfo": {"username": "system:serviceaccount:x:karpenter"}, "oldObject": told,
    }})
}

/// Posts a review to a path of the gateway. Returns the HTTP code and the body.
async fn post(scene: &Scene, path: &str, review: &Value) -> (u16, String) {
    post_with(scene, path, review, None).await
}

/// The same with a bearer token.
pub(crate) async fn post_with(
    scene: &Scene,
    path: &str,
    review: &Value,
    token: Option<&str>,
) -> (u16, String) {
    let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
    let url = format!("https://127.0.0.1:{}{path}", scene.platform().gateway().unwrap().port());
    let mut request = client.post(url).json(review);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let reply = request.send().await.unwrap();
    (reply.status().as_u16(), reply.text().await.unwrap())
}

/// The secret token in the paths of the gateway.
pub(crate) async fn path_token(scene: &Scene) -> String {
    let secrets: Api<Secret> = Api::namespaced(scene.admin(), "evacuation-system");
    let data = secrets.get("evacuation-gateway-path").await.unwrap().data.unwrap_or_default();
    String::from_utf8(data["token"].0.clone()).unwrap()
}

/// Returns the writes of the gateway in the scene's namespace since the mark, Events aside.
pub(crate) fn writes(scene: &Scene, mark: u64) -> Vec<String> {
    let events = scene.control_plane().audit_events_since(mark).unwrap();
    let events = events.iter().filter(|event| event.user_agent().starts_with("evacuation-gateway/"));
    let events = events.filter(|event| event.namespace() == scene.namespace());
    events.filter(|event| !READS.contains(&event.verb())).map(|event| event.value().to_string()).collect()
}

/// Only the kube-apiserver knows the path.
///
/// # Attack
///
/// - Attacker: a pod that reaches the gateway's Service
/// - Act: posts a made-up AdmissionReview for the pod of another
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn a_review_without_the_token_is_rejected_and_nothing_is_written() {
    let scene = Scene::from_pool("impostor", &GATEWAY).await;
    let (beside, node) = tokio::join!(Bystander::new(&scene), scene.own_node());
    let pod = scene.pods.create("victim", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let gateway = scene.platform().gateway().unwrap();
    let (mark, before) =
        (scene.control_plane().audit_mark().unwrap(), gateway.count("calls_rejected", &[]).await.unwrap());
    let guess = format!("/delete/{}", "0".repeat(64));
    let calls = async {
        for path in ["/delete", "/delete/", &guess, "/evict", "/pods", "/"] {
            assert_eq!(post(&scene, path, &review(&pod)).await.0, 403, "{path}");
        }
    };
    tokio::join!(calls, beside.drains(&scene));
    let rejected = gateway.count("calls_rejected", &[]).await.unwrap() - before;
    assert!(rejected >= 6.0, "{rejected}");
    assert_eq!(writes(&scene, mark), Vec::<String>::new());
    scene.left_alone("victim");
    let live = scene.pods.api().get("victim").await.unwrap();
    assert_eq!((live.uid(), live.metadata.deletion_timestamp), (pod.uid(), None));
}

/// The gateway believes no pod that a request describes.
///
/// # Attack
///
/// - Attacker: a holder of the token
/// - Act: posts an AdmissionReview whose pod has an annotation that the live pod lacks
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn a_review_with_an_annotation_that_the_live_pod_lacks_asks_nobody() {
    let scene = Scene::from_pool("believed", &GATEWAY).await;
    let (beside, node) = tokio::join!(Bystander::new(&scene), scene.own_node());
    let pod = scene.pods.create("victim", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let token = path_token(&scene).await;
    let mark = scene.control_plane().audit_mark().unwrap();
    let (path, told) = (format!("/delete/{token}"), review(&pod));
    let ((code, reply), ()) = tokio::join!(post(&scene, &path, &told), beside.drains(&scene));
    let reply: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!((code, &reply["response"]["allowed"]), (200, &json!(true)));
    assert_eq!(reply["response"]["auditAnnotations"]["verdict"], "unregistered");
    assert_eq!(writes(&scene, mark), Vec::<String>::new());
    scene.left_alone("victim");
    assert!(!gateway_shows(&scene, &token).await, "the token is in no metric and in no log");
}

/// Returns true when the token is in the gateway's metrics or logs.
async fn gateway_shows(scene: &Scene, token: &str) -> bool {
    let gateway = scene.platform().gateway().unwrap();
    let logs = gateway.processes().iter().map(|process| process.log().unwrap());
    logs.chain([gateway.metrics().await.unwrap()]).any(|text| text.contains(token))
}
