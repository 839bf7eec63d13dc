//! Responders that are asked, and their order.

use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::{App, PodSpec, scene::names};
use serde_json::json;

use crate::database::{self, FAILOVER};

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_that_a_selector_registers_is_asked_by_priority_with_the_pods_own() {
    let scene = database::scene("selector").await;
    database::register(&scene, "failover", FAILOVER, json!({"priority": 20_000})).await;
    database::register(&scene, "after", "z.acme.io/after", json!({"priority": 1, "timeoutSeconds": 1})).await;
    let pod = database::pod(&scene, PodSpec::watching()).await;
    let (_operator, _app) = (
        database::accepting_operator(&scene).await,
        App::watching(scene.platform(), &pod, "accept", &[]).await.unwrap(),
    );
    let evacuation = database::ask(&scene, &pod).await;
    let responders = database::evacuated(&scene, &evacuation).await;
    assert_eq!(names(&responders), [FAILOVER, "self", "z.acme.io/after"]);
    let answers: Vec<_> = responders.iter().map(|r| r.answer).collect();
    assert_eq!(answers, [Some(Answer::Accept), Some(Answer::Accept), None]);
    let times: Vec<_> = responders.iter().map(|r| r.active_time.unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_matches_nothing_registers_nobody() {
    let scene = database::scene("no-match").await;
    let other = json!({"selector": {"matchLabels": {"app": "web"}}});
    database::register(&scene, "other", FAILOVER, other).await;
    let pod = database::pod(&scene, PodSpec::default()).await;
    let evacuation = database::ask(&scene, &pod).await;
    assert_eq!(names(&database::evacuated(&scene, &evacuation).await), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_selectors_that_name_one_responder_the_older_counts_and_the_annotation_before_both() {
    let scene = database::scene("twice").await;
    database::register(&scene, "a", FAILOVER, json!({"timeoutSeconds": 11})).await;
    database::register(&scene, "b", FAILOVER, json!({"timeoutSeconds": 12})).await;
    database::register(&scene, "c", "self", json!({"timeoutSeconds": 13})).await;
    let annotated = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 14}]));
    let pod = database::pod(&scene, annotated).await;
    let responders = database::started(&scene, &database::ask(&scene, &pod).await).await;
    let timeouts: Vec<_> = responders.iter().map(|r| (r.name.as_str(), r.timeout_seconds)).collect();
    assert_eq!(timeouts, [(FAILOVER, 11), ("self", 14)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_is_asked_when_one_falls_silent() {
    let scene = database::scene("takeover").await;
    let silent = json!({"priority": 20_000, "timeoutSeconds": 1});
    database::register(&scene, "silent", "silent.acme.io/failover", silent).await;
    database::register(&scene, "failover", FAILOVER, json!({})).await;
    let (pod, _operator) =
        tokio::join!(database::pod(&scene, PodSpec::default()), database::accepting_operator(&scene));
    let evacuation = database::ask(&scene, &pod).await;
    let responders = database::evacuated(&scene, &evacuation).await;
    let states: Vec<_> = responders.iter().map(|r| (r.name.as_str(), r.state)).collect();
    assert_eq!(
        states,
        [("silent.acme.io/failover", ResponderState::Interrupted), (FAILOVER, ResponderState::Completed)]
    );
    assert_eq!(responders[0].message.as_deref(), Some("it was silent for 1 s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_than_sixteen_the_rest_is_reported() {
    let scene = database::scene("too-many").await;
    for i in 0..17 {
        let responder = format!("r-{i}.acme.io/x");
        database::register(&scene, &format!("r-{i}"), &responder, json!({"priority": 100 - i})).await;
    }
    let pod = database::pod(&scene, PodSpec::default()).await;
    let responders = database::started(&scene, &database::ask(&scene, &pod).await).await;
    assert_eq!((responders.len(), responders[15].name.as_str()), (16, "r-15.acme.io/x"));
    let event = database::event(&scene, "RespondersLeftOut").await;
    assert!(event.ends_with("not asked: r-16.acme.io/x"), "{event}");
}
