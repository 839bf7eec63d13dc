//! Two API servers on one etcd, behind a balancer.

use std::{collections::BTreeSet, time::Duration};

use chrono::TimeDelta;
use controlplane::eventually;
use evacuation_api::Answer;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{ASKER, PATIENCE, answer, entry, wanting},
};
use futures::{TryStreamExt, pin_mut};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use crate::worker::Worker;

/// Difference between the clocks of the two API servers.
const SKEW: TimeDelta = TimeDelta::seconds(45);

/// Two API servers, with clocks of their own.
static REPLICAS: Pool =
    Pool::new(1, || PlatformOptions { apiservers: 2, fake_clocks: true, ..PlatformOptions::default() });

async fn replicas(prefix: &str) -> Scene {
    Scene::from_pool(prefix, &REPLICAS).await
}

/// The Evacuations of the scene, at each API server itself.
fn both(scene: &Scene) -> [Api<evacuation_api::Evacuation>; 2] {
    [0, 1].map(|place| Api::namespaced(scene.direct(place), scene.namespace()))
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_continue_and_watches_resume_at_the_other_api_server() {
    let scene = replicas("move").await;
    let [first, second] = both(&scene);
    let mut names = BTreeSet::new();
    for n in 0..5 {
        let name = format!("app-{n}");
        scene.pod(&name, PodSpec::watching()).await;
        let wanted = wanting(&name, &[entry(ASKER, json!({}))]);
        names.insert(first.create(&PostParams::default(), &wanted).await.unwrap().name_any());
    }
    // A list that begins at one and continues at the other sees each object once.
    let page = first.list(&ListParams::default().limit(2)).await.unwrap();
    let mut seen: Vec<String> = page.items.iter().map(ResourceExt::name_any).collect();
    let mut token = page.metadata.continue_.clone();
    let mut turn = 1;
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        let api = if turn % 2 == 0 { &first } else { &second };
        turn += 1;
        let page = api.list(&ListParams::default().limit(2).continue_token(&next)).await.unwrap();
        seen.extend(page.items.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_.clone();
    }
    assert_eq!(seen.len(), names.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names);

    // A watch that began at one resumes at the other, and misses nothing.
    let since = page.metadata.resource_version.unwrap();
    let later = scene.pod("later", PodSpec::watching()).await;
    let wanted = wanting(&later.name_any(), &[entry(ASKER, json!({}))]);
    let added = first.create(&PostParams::default(), &wanted).await.unwrap().name_any();
    for api in [&second, &first] {
        let events = api.watch(&WatchParams::default(), &since).await.unwrap();
        pin_mut!(events);
        let found = async {
            while let Some(event) = events.try_next().await.unwrap() {
                if matches!(&event, WatchEvent::Added(e) if e.name_any() == added) {
                    return;
                }
            }
            panic!("the watch ended");
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_dies_during_a_drain_does_not_stop_it() {
    let scene = replicas("dies").await;
    let node = scene.own_node().await;
    let worker = Worker::new(Duration::from_mins(1));
    let pod = scene.pod("busy", PodSpec::watching().on(&node)).await;
    let _app = scene.app(&pod, worker.handler()).await;
    scene.pod("plain", PodSpec::default().on(&node)).await;
    let balancer = scene.platform().balancer().unwrap();
    // Everybody is a client of the first, and the drain is in the middle.
    balancer.only(0);
    let mut command = scene.platform().kubectl_command();
    command.args(["evacuate", "node", &node, "--force"]);
    let draining = controlplane::Process::spawn("drain", command, &scene.control_plane().logs()).unwrap();
    let busy = scene.evacuation_of("busy").await;
    scene.until_state(&busy, "Delayed").await;

    scene.platform().apiservers()[0].kill().unwrap();
    balancer.only(1);
    worker.finish();
    let status = draining.wait(PATIENCE).await.unwrap();
    assert!(status.success(), "{}", draining.log().unwrap());
    scene.pods.gone(&pod).await.unwrap();
    assert_eq!(scene.evicted().len(), 2);
}

/// Waits until an API server passes its readiness probe, or fails the check of its clock.
async fn until_ready(scene: &Scene, place: usize, ready: bool) {
    let client = scene.direct(place);
    let answered = eventually(PATIENCE, "the readiness changes", || async {
        let request = http::Request::get("/readyz?verbose").body(Vec::new()).unwrap();
        match client.request_text(request).await {
            Ok(text) if ready => Ok(text),
            Err(error) if !ready && format!("{error:?}").contains("[-]clock failed") => Ok(String::new()),
            other => Err(format!("{other:?}")),
        }
    });
    answered.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_whose_clock_is_ahead_is_not_ready_and_ends_no_delay() {
    let scene = replicas("skew").await;
    let balancer = scene.platform().balancer().unwrap();
    let ahead = &scene.platform().clocks().unwrap().apiservers[1];
    ahead.set(SKEW).unwrap();
    until_ready(&scene, 1, false).await;
    until_ready(&scene, 0, true).await;
    // A Service sends no request to a server that is not ready.
    balancer.only(0);
    let pod = scene.pod("db-0", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let delay = json!({"answer": "Delay", "delaySeconds": 15});
    answer(&scene.client_of(&pod).await, &evacuation, delay).await.unwrap();
    let granted = scene.answered(&evacuation, Answer::Delay).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let (until, evicted) = (granted.delay_until.unwrap().0, scene.evicted_at("db-0"));
    assert!(until <= evicted, "the delay ends at {until}, and the pod was evicted at {evicted}");

    ahead.set(TimeDelta::zero()).unwrap();
    until_ready(&scene, 1, true).await;
}
