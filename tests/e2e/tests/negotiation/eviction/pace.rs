//! The pace of asking: being asked takes no service down.

use std::sync::Arc;

use evacuation_api::{Evacuation, ResponderState};
use evacuation_client::{Answer, Question};
use evacuation_e2e::{
    PodSpec, Scene, is_ready,
    scene::{condition, first, quick},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::Mutex;

use super::budgets::deployed;

/// Pods of an app that stop their work when they are asked.
#[derive(Clone)]
struct Stopping {
    pods: Api<Pod>,
    /// The UIDs of those that were asked, and for each how many pods served on without it.
    asked: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Stopping {
    /// Stops the pod: it is not ready any more, and accepts.
    async fn stop(&self, name: String, uid: String) -> Answer {
        let mut asked = self.asked.lock().await;
        let pods = self.pods.list(&ListParams::default()).await.unwrap().items;
        let was_asked = |pod: &Pod| asked.iter().any(|(known, _)| pod.metadata.uid.as_ref() == Some(known));
        let serves = |pod: &&Pod| {
            is_ready(pod)
                && pod.metadata.deletion_timestamp.is_none()
                && pod.metadata.uid.as_ref() != Some(&uid)
                && !was_asked(pod)
        };
        let others = pods.iter().filter(serves).count();
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let patch = Patch::Strategic(unready);
        self.pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        asked.push((uid, others));
        Answer::accept()
    }
}

fn is_active(evacuation: &Evacuation) -> bool {
    first(evacuation).state == ResponderState::Active
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_that_stop_when_they_are_asked_stay_within_their_budget_and_all_move() {
    let scene = Scene::new("pace").await;
    let pods = deployed(&scene, &json!([{"name": "self"}])).await;
    scene.pods.budget("web", ("app", "web"), 1).await.unwrap();
    let app = Stopping { pods: scene.pods.api(), asked: Arc::default() };
    let mut running = Vec::new();
    for pod in &pods {
        let app = app.clone();
        let (name, uid) = (pod.metadata.name.clone().unwrap(), pod.metadata.uid.clone().unwrap());
        let handler = move |_: Question| {
            let (app, name, uid) = (app.clone(), name.clone(), uid.clone());
            async move { app.stop(name, uid).await }
        };
        running.push(scene.app(pod, handler).await);
    }
    let evacuations = join_all(pods.iter().map(|pod| scene.ask(pod, json!({})))).await;
    for evacuation in &evacuations {
        scene.ends(evacuation, "Evacuated Evicted").await;
    }
    let asked = app.asked.lock().await;
    let served: Vec<usize> = asked.iter().map(|(_, others)| *others).collect();
    assert_eq!(served.len(), 3, "each was asked once: {served:?}");
    assert!(served.iter().all(|others| *others >= 2), "two of three serve at every time: {served:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_allows_none_lets_no_app_be_asked_but_one_that_serves_until_its_end() {
    let scene = Scene::new("none").await;
    let stops = PodSpec::registered(&json!([{"name": "self"}])).label("app", "stops");
    let serves = json!([{"name": "self", "servesUntilTermination": true}]);
    let serves = PodSpec::registered(&serves).label("app", "serves");
    let (stops, serves) = tokio::join!(scene.pod("stops", quick(stops)), scene.pod("serves", quick(serves)));
    tokio::join!(scene.floor("stops", ("app", "stops"), 1), scene.floor("serves", ("app", "serves"), 1));
    let (held, asked) = tokio::join!(scene.ask(&stops, json!({})), scene.ask(&serves, json!({})));
    let says = "budget stops lets no further pod be asked now: budget stops allows no disruption even when all of \
                its pods are healthy (minAvailable 1, 1 of 1 pod must be healthy)";
    let is_told =
        |held: &Evacuation| condition(held, "Blocked").is_some_and(|blocked| blocked.message == says);
    let held = scene.until(&held, "held by a budget that never allows a disruption", is_told).await;
    assert_eq!(condition(&held, "Blocked").unwrap().reason, "AwaitingTurn");
    assert_eq!(first(&held).state, ResponderState::Inactive);
    scene.until(&asked, "asked", is_active).await;

    // The budget that gets room has its pod asked at once.
    scene.lower("stops", 0).await;
    scene.until(&held, "asked", is_active).await;
    let app = scene.app(&stops, |_: Question| async { Answer::accept() }).await;
    scene.ends(&held, "Evacuated Evicted").await;
    drop(app);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_refuses_leaves_its_turn_to_the_next() {
    let scene = Scene::new("refusing").await;
    let pods = deployed(&scene, &json!([{"name": "self"}])).await;
    scene.pods.budget("web", ("app", "web"), 1).await.unwrap();
    let mut apps = Vec::new();
    let mut evacuations = Vec::new();
    for pod in &pods[..2] {
        apps.push(scene.app(pod, |_: Question| async { Answer::refuse("busy") }).await);
        evacuations.push(scene.ask(pod, json!({"onRefusal": "Wait"})).await);
    }
    for evacuation in &evacuations {
        scene.until_condition(evacuation, "Blocked", "Refused").await;
    }
    apps.push(scene.app(&pods[2], |_: Question| async { Answer::accept() }).await);
    let last = scene.ask(&pods[2], json!({})).await;
    scene.ends(&last, "Evacuated Evicted").await;
}
