//! The secret path while it changes, with two replicas of the gateway.

use std::time::Duration;

use controlplane::eventually;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, PATIENCE, answer},
};
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{EvictParams, Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A platform with two gateways, which make the first token at the same time.
static PLATFORM: Pool = Pool::new(1, || {
    let configuration =
        "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n".to_owned();
    PlatformOptions { gateway: Some(configuration), gateways: 2, ..PlatformOptions::default() }
});

/// Pause between two tries of the caller.
const PAUSE: Duration = Duration::from_millis(50);
/// The Secret of the token.
const SECRET: &str = "evacuation-gateway-path";

fn secrets(scene: &Scene) -> Api<Secret> {
    Api::namespaced(scene.admin(), "evacuation-system")
}

/// Returns the token of the Secret.
async fn token(scene: &Scene) -> Result<String, &'static str> {
    let secret = secrets(scene).get(SECRET).await.map_err(|_| "the Secret cannot be read")?;
    let token = secret.data.unwrap_or_default().remove("token").ok_or("the Secret has no token")?;
    String::from_utf8(token.0).map_err(|_| "the token is no text")
}

/// Returns the last part of each path of the webhooks.
async fn tokens_in_paths(scene: &Scene) -> Vec<String> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin());
    let configurations = api.list(&kube::api::ListParams::default()).await.unwrap();
    let configurations =
        configurations.items.iter().filter(|found| found.name_any().starts_with("evacuation-gateway"));
    let webhooks = configurations.flat_map(|found| found.webhooks.iter().flatten());
    let urls = webhooks.filter_map(|webhook| webhook.client_config.url.clone());
    urls.map(|url| url.rsplit('/').next().unwrap().to_owned()).collect()
}

/// Waits until each path of the webhooks has that token.
async fn in_all_paths(scene: &Scene, token: &str) {
    let all = eventually(PATIENCE, "each path has the token", || async {
        let found = tokens_in_paths(scene).await;
        let all = !found.is_empty() && found.iter().all(|known| known == token);
        if all { Ok(()) } else { Err(format!("{} paths", found.len())) }
    });
    all.await.unwrap();
}

/// # Attack
///
/// - Attacker: a caller that tries without a pause while an operator replaces the token
/// - Act: looks for a moment in which the gateway rejects the kube-apiserver, so that its call passes unasked
/// - Promise: 11, 12
#[tokio::test(flavor = "multi_thread")]
async fn no_call_passes_while_an_operator_replaces_the_token() {
    let scene = Scene::from_pool("rotation", &PLATFORM).await;
    let beside = Bystander::new(&scene).await;
    let pod = scene.pod("db", PodSpec::watching()).await;
    let asked = scene.ask_and_reach(&pod, json!({"onRefusal": "Wait"})).await;
    answer(&scene.client_of(&pod).await, &asked, json!({"answer": "Delay", "delaySeconds": 3600}))
        .await
        .unwrap();
    let gateway = scene.platform().gateway().unwrap();
    let first = token(&scene).await.unwrap();
    in_all_paths(&scene, &first).await;
    let pods = scene.pods.api();
    // A call that its caller gives up is audited with 504, so the caller ends between two calls.
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let caller = tokio::spawn(async move {
        while !stopped.is_cancelled() {
            pods.evict("db", &EvictParams::default()).await.unwrap_err();
            tokio::time::sleep(PAUSE).await;
        }
    });

    let remove = json!([{"op": "remove", "path": "/data/token"}]);
    let patch = Patch::<()>::Json(serde_json::from_value(remove).unwrap());
    secrets(&scene).patch(SECRET, &PatchParams::default(), &patch).await.unwrap();
    let second = eventually(PATIENCE, "a new token is made", || async {
        token(&scene).await.and_then(|found| if found == first { Err("the old one") } else { Ok(found) })
    });
    let second = second.await.unwrap();
    in_all_paths(&scene, &second).await;
    beside.drains(&scene).await;
    stop.cancel();
    caller.await.expect("no call passed while the token changed");

    assert!(scene.stays(&pod).await);
    assert!(scene.failed_open().is_empty(), "the kube-apiserver let no call pass");
    let codes: Vec<_> = scene.evictions("db").iter().map(controlplane::AuditEvent::code).collect();
    assert!(codes.iter().all(|code| *code == 429), "{codes:?}");
    for replica in gateway.processes() {
        let log = replica.log().unwrap();
        assert!(!log.contains(&first) && !log.contains(&second), "no log has a token");
    }
}
