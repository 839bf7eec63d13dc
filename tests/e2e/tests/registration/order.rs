//! Who is asked, and in which order.

use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::{App, PodSpec};
use serde_json::json;

use crate::scene::{FAILOVER, Scene, names};

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_that_a_selector_registers_is_asked_by_priority_with_the_pods_own() {
    let scene = Scene::new("selector").await;
    scene.register("failover", FAILOVER, json!({"priority": 20_000})).await;
    scene.register("after", "z.acme.io/after", json!({"priority": 1, "timeoutSeconds": 1})).await;
    let pod = scene.pod(PodSpec::watching()).await;
    let (_operator, _app) =
        (scene.accepting_operator().await, App::watching(scene.platform, &pod, "accept", &[]).await.unwrap());
    let evacuation = scene.ask(&pod).await;
    let responders = scene.evacuated(&evacuation).await;
    assert_eq!(names(&responders), [FAILOVER, "self", "z.acme.io/after"]);
    let answers: Vec<_> = responders.iter().map(|r| r.answer).collect();
    assert_eq!(answers, [Some(Answer::Accept), Some(Answer::Accept), None]);
    let times: Vec<_> = responders.iter().map(|r| r.active_time.unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_matches_nothing_registers_nobody() {
    let scene = Scene::new("no-match").await;
    let other = json!({"selector": {"matchLabels": {"app": "web"}}});
    scene.register("other", FAILOVER, other).await;
    let pod = scene.pod(PodSpec::default()).await;
    let evacuation = scene.ask(&pod).await;
    assert_eq!(names(&scene.evacuated(&evacuation).await), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_selectors_that_name_one_responder_the_older_counts_and_the_annotation_before_both() {
    let scene = Scene::new("twice").await;
    scene.register("a", FAILOVER, json!({"timeoutSeconds": 11})).await;
    scene.register("b", FAILOVER, json!({"timeoutSeconds": 12})).await;
    scene.register("c", "self", json!({"timeoutSeconds": 13})).await;
    let annotated = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 14}]));
    let pod = scene.pod(annotated).await;
    let responders = scene.started(&scene.ask(&pod).await).await;
    let timeouts: Vec<_> = responders.iter().map(|r| (r.name.as_str(), r.timeout_seconds)).collect();
    assert_eq!(timeouts, [(FAILOVER, 11), ("self", 14)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_is_asked_when_one_falls_silent() {
    let scene = Scene::new("takeover").await;
    let silent = json!({"priority": 20_000, "timeoutSeconds": 1});
    scene.register("silent", "silent.acme.io/failover", silent).await;
    scene.register("failover", FAILOVER, json!({})).await;
    let (pod, _operator) = tokio::join!(scene.pod(PodSpec::default()), scene.accepting_operator());
    let evacuation = scene.ask(&pod).await;
    let responders = scene.evacuated(&evacuation).await;
    let states: Vec<_> = responders.iter().map(|r| (r.name.as_str(), r.state)).collect();
    assert_eq!(
        states,
        [("silent.acme.io/failover", ResponderState::Interrupted), (FAILOVER, ResponderState::Completed)]
    );
    assert_eq!(responders[0].message.as_deref(), Some("it was silent for 1 s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_than_sixteen_the_rest_is_reported() {
    let scene = Scene::new("too-many").await;
    for i in 0..17 {
        let responder = format!("r-{i}.acme.io/x");
        scene.register(&format!("r-{i}"), &responder, json!({"priority": 100 - i})).await;
    }
    let pod = scene.pod(PodSpec::default()).await;
    let responders = scene.started(&scene.ask(&pod).await).await;
    assert_eq!((responders.len(), responders[15].name.as_str()), (16, "r-15.acme.io/x"));
    let event = scene.event("RespondersLeftOut").await;
    assert!(event.ends_with("not asked: r-16.acme.io/x"), "{event}");
}
