//! Faults: a call passes within the seconds of its webhook, and what passed unasked is named.

use std::time::Duration;

use controlplane::eventually;
use evacuation_api::{BlockedReason, Evacuation, EvacuationStatus};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{PATIENCE, refused},
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::EvictParams;
use serde_json::json;

use crate::stage::{Stage, options};

/// Platforms that a test disturbs, with the shipped second.
static POOL: Pool = Pool::new(1, || PlatformOptions { gateway_seconds: 1, ..options() });

async fn stage(prefix: &str) -> Stage {
    Stage::of(Scene::from_pool(prefix, &POOL)).await
}

/// Evicts the pod. The first try must pass.
async fn evicts(stage: &Stage, pod: &str) {
    stage.pods.api().evict(pod, &EvictParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_gateway_a_call_passes_and_the_controller_names_it() {
    let stage = stage("nogateway").await;
    for name in ["stopped", "frozen"] {
        stage.app_pod(name, PodSpec::watching()).await;
    }
    stage.gateway().processes()[0].pause().unwrap();
    evicts(&stage, "frozen").await;
    stage.gateway().processes()[0].kill().unwrap();
    evicts(&stage, "stopped").await;
    assert!(stage.all_evacuations().await.is_empty());
    for name in ["stopped", "frozen"] {
        let said = stage.event("Pod", name, "DeletedUnasked").await;
        assert!(said.contains("its responders were not asked"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_while_it_waits_for_its_turn_is_named() {
    let stage = stage("inline").await;
    for name in ["asked", "waiting"] {
        stage.app_pod(name, PodSpec::watching().label("app", "web")).await;
    }
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    stage.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let budgets = stage.api::<PodDisruptionBudget>();
    let counted = eventually(PATIENCE, "the budget has room for one", || async {
        let status = budgets.get("web").await.unwrap().status.unwrap_or_default();
        if status.disruptions_allowed == Some(1) { Ok(()) } else { Err(format!("{status:?}")) }
    });
    counted.await.unwrap();
    stage.pods.api().evict("asked", &EvictParams::default()).await.unwrap_err();
    stage.reached(&stage.evacuation_of("asked").await, 0).await;
    stage.pods.api().evict("waiting", &EvictParams::default()).await.unwrap_err();
    let in_line = |e: &Evacuation| {
        e.status.as_ref().and_then(EvacuationStatus::reason) == Some(BlockedReason::AwaitingTurn)
    };
    stage.until(&stage.evacuation_of("waiting").await, "it waits for its turn", in_line).await;
    stage.gateway().processes()[0].kill().unwrap();
    stage.delete_pod("waiting").await;
    let said = stage.event("Pod", "waiting", "DeletedUnasked").await;
    assert!(said.contains("its responders were not asked"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_evacuation_api_a_call_passes_and_an_event_and_a_metric_name_it() {
    let stage = stage("noapi").await;
    stage.app_pod("stopped", PodSpec::watching()).await;
    let asked = stage.app_pod("asked", PodSpec::watching()).await;
    stage.pods.api().evict("asked", &EvictParams::default()).await.unwrap_err();
    stage.evacuation_of("asked").await;
    let before = stage.gateway().count("passed_unasked", &["reason=\"api_down\""]).await.unwrap();
    stage.platform().apiserver().kill().unwrap();
    evicts(&stage, "stopped").await;
    let said = stage.event("Pod", "stopped", "PassedUnasked").await;
    assert!(said.contains("admin could evict the pod unasked: the evacuation API did not answer"), "{said}");
    let after = stage.gateway().count("passed_unasked", &["reason=\"api_down\""]).await.unwrap();
    assert!(after > before, "{before} {after}");
    // The record of a pod that was asked before may be stale, and does not hold its caller up.
    let api = stage.pods.api();
    let passed = eventually(PATIENCE, "the stale record is known", || async {
        api.evict("asked", &EvictParams::default()).await.map(drop).map_err(|error| error.to_string())
    });
    passed.await.unwrap();
    stage.pods.gone(&asked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_frozen_evacuation_api_a_call_passes_and_an_event_names_it() {
    let stage = stage("frozenapi").await;
    stage.app_pod("app", PodSpec::watching()).await;
    stage.platform().apiserver().pause().unwrap();
    evicts(&stage, "app").await;
    let said = stage.event("Pod", "app", "PassedUnasked").await;
    assert!(said.contains("could evict the pod unasked"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_slow_evacuation_api_as_long_as_the_webhook_says() {
    let options = PlatformOptions { gateway_seconds: 10, ..options() };
    let stage = Stage::of(Scene::alone("patient", options)).await;
    stage.app_pod("app", PodSpec::watching()).await;
    let apiserver = stage.platform().apiserver();
    apiserver.pause().unwrap();
    let slow = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        apiserver.resume().unwrap();
    };
    let (api, parameters) = (stage.pods.api(), EvictParams::default());
    let (evicted, ()) = tokio::join!(api.evict("app", &parameters), slow);
    assert_eq!(refused(evicted).code, 429);
    stage.evacuation_of("app").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_a_call_passes_and_an_event_names_it() {
    let stage = stage("nostore").await;
    stage.app_pod("app", PodSpec::watching()).await;
    stage.platform().etcd().unwrap().pause().unwrap();
    evicts(&stage, "app").await;
    let said = stage.event("Pod", "app", "PassedUnasked").await;
    assert!(said.contains("could evict the pod unasked"), "{said}");
    stage.platform().etcd().unwrap().resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_expired_certificate_a_call_passes_and_the_controller_names_it() {
    let stage = stage("expired").await;
    for name in ["before", "after"] {
        stage.app_pod(name, PodSpec::watching()).await;
    }
    stage.pods.api().evict("before", &EvictParams::default()).await.unwrap_err();
    let pki = stage.control_plane().pki();
    let names = ["localhost", "127.0.0.1"];
    // The kube-apiserver keeps connections: the one that it has must end.
    stage.gateway().serve_with(&pki.expired(&names).unwrap()).unwrap();
    stage.gateway().restart(0).await.unwrap();
    evicts(&stage, "after").await;
    let said = stage.event("Pod", "after", "DeletedUnasked").await;
    assert!(said.contains("its responders were not asked"), "{said}");
    // Other scenes use the platform after this one.
    stage.gateway().serve_with(&pki.serving(&names).unwrap()).unwrap();
    stage.gateway().restart(0).await.unwrap();
}
