//! Options of an eviction, and the Evacuation after it.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, answer, entry, wanting},
};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_shortest_grace_period_that_a_requester_names_is_passed_on() {
    let scene = Scene::new("grace").await;
    scene.pod("app", PodSpec::default()).await;
    let wanted = wanting(
        "app",
        &[
            entry(ASKER, json!({"gracePeriodSeconds": 60})),
            entry("test.evacuation.dev/hurry", json!({"gracePeriodSeconds": 7})),
            entry("test.evacuation.dev/none", json!({})),
        ],
    );
    let api = scene.evacuations();
    let evacuation = api.create(&PostParams::default(), &wanted).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let calls = scene.evictions("app");
    let grace = calls[0].value().pointer("/requestObject/deleteOptions/gracePeriodSeconds");
    assert_eq!(grace.and_then(Value::as_i64), Some(7), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_grace_period_the_pods_own_counts() {
    let scene = Scene::new("own-grace").await;
    let pod = scene.pod("app", PodSpec::default()).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let calls = scene.evictions("app");
    let grace = calls[0].value().pointer("/requestObject/deleteOptions/gracePeriodSeconds");
    assert_eq!(grace.and_then(Value::as_i64), None, "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_ended_is_removed_when_its_time_to_live_is_over() {
    let scene = Scene::new("ttl").await;
    let (pod, other) =
        tokio::join!(scene.pod("app", PodSpec::default()), scene.pod("other", PodSpec::default()));
    let mut wanted = wanting("app", &[entry(ASKER, json!({}))]);
    wanted.spec.ttl_seconds_after_finished = Some(1);
    let api = scene.evacuations();
    let short = api.create(&PostParams::default(), &wanted).await.unwrap();
    let long = scene.ask(&other, json!({})).await;
    scene.ends(&long, "Evacuated Evicted").await;
    scene.removed(&short).await;
    scene.pods.gone(&pod).await.unwrap();
    assert_eq!(scene.evictions("app").len(), 1);
    assert_eq!(scene.get(&long).await.spec.ttl_seconds_after_finished, Some(3600));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_evacuation_tells_what_happened_and_the_pod_tells_the_end() {
    let scene = Scene::new("events").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    answer(&app, &evacuation, json!({"answer": "Delay", "delaySeconds": 500, "message": "in a minute"}))
        .await
        .unwrap();
    scene.event("Evacuation", &evacuation.name_any(), "Delayed").await;
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let of_evacuation = evacuation.name_any();
    for (kind, name, reason, says) in [
        ("Evacuation", of_evacuation.as_str(), "Asked", "has 60 s to answer"),
        ("Evacuation", of_evacuation.as_str(), "Delayed", "in a minute"),
        ("Evacuation", of_evacuation.as_str(), "Evicted", "the pod is gone"),
        ("Pod", "app", "Evicted", "the pod is gone"),
    ] {
        let said = scene.event(kind, name, reason).await;
        assert!(said.contains(says), "{kind} {reason}: {said}");
    }
}
