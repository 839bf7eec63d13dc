//! The database of these tests: a pod, the responders that selectors register for it, and its operator.

use controlplane::ControlPlane;
use evacuation_api::{Evacuation, EvacuationResponder, ResponderStatus};
use evacuation_client::{Answer, Question, Responder};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{Running, responders},
};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::{Value, json};

/// The responder of most tests.
pub(crate) const FAILOVER: &str = "db.acme.io/failover";
/// Cluster IPs at which the tests themselves can listen.
const SERVICES: &str = "127.96.0.0/16";

fn options() -> PlatformOptions {
    PlatformOptions {
        control_plane: ControlPlane::builder().apiserver_args(&["--service-cluster-ip-range", SERVICES]),
        controller_args: vec![format!("--push-allow-cidr={SERVICES}")],
        ..PlatformOptions::default()
    }
}

pub(crate) async fn scene(prefix: &str) -> Scene {
    Scene::with(prefix, options).await
}

/// Registers a responder for the pods labelled `app: db`, unless `more` holds another selector.
pub(crate) async fn register(
    scene: &Scene,
    name: &str,
    responder: &str,
    mut more: Value,
) -> EvacuationResponder {
    if more.get("selector").is_none() {
        more["selector"] = json!({"matchLabels": {"app": "db"}});
    }
    scene.register(name, responder, more).await
}

/// Creates the pod, labelled `app: db`.
pub(crate) async fn pod(scene: &Scene, spec: PodSpec) -> Pod {
    scene.pod("db-0", spec.label("app", "db")).await
}

/// Asks the pod to move.
pub(crate) async fn ask(scene: &Scene, pod: &Pod) -> Evacuation {
    scene.ask(pod, json!({})).await
}

/// Waits until the responders are fixed.
pub(crate) async fn started(scene: &Scene, evacuation: &Evacuation) -> Vec<ResponderStatus> {
    let fixed = |e: &Evacuation| e.status.as_ref().is_some_and(|status| status.responders.is_some());
    responders(&scene.until(evacuation, "the responders are fixed", fixed).await)
}

/// Waits until the pod is evacuated.
pub(crate) async fn evacuated(scene: &Scene, evacuation: &Evacuation) -> Vec<ResponderStatus> {
    responders(&scene.ends(evacuation, "Evacuated Evicted").await)
}

/// A user that may watch Evacuations and answer by the name [`FAILOVER`].
async fn operator(scene: &Scene) -> Client {
    let user = scene.user("operator", &["evacuation:responder"]).await;
    let right = json!({"apiGroups": ["evacuation.dev"], "resources": ["responders"], "verbs": ["respond"],
        "resourceNames": [FAILOVER]});
    scene.grant(&user.name, right).await;
    let watch = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "watch"});
    scene.decided(&user.name, &watch, true).await;
    user.client
}

/// An operator that accepts by the name [`FAILOVER`], until it is dropped.
pub(crate) async fn accepting_operator(scene: &Scene) -> Running {
    let client = operator(scene).await;
    let responder = Responder::named(client, FAILOVER, Some(scene.namespace()));
    tokio::spawn(responder.run(|_: Question| async { Answer::accept() })).into()
}

/// Waits for an Event of that reason, and returns its message.
pub(crate) async fn event(scene: &Scene, reason: &str) -> String {
    scene.event_where(reason, |event| event.reason.as_deref() == Some(reason)).await
}
