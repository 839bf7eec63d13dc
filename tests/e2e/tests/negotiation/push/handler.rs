//! An app that does its part: the guide's Python handler, and what it is sent.

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{TimeDelta, Utc};
use evacuation_api::{Answer, ResponderState, ReviewAction};
use evacuation_e2e::{
    App, Endpoint, PodSpec, Reply, Scene, answering,
    scene::{ASKER, LATE, delay_end, entry, first, put_entries},
};
use kube::ResourceExt;
use serde_json::json;

async fn python(scene: &Scene, arguments: &[&str]) -> (k8s_openapi::api::core::v1::Pod, App) {
    let pod = scene.pod("app", PodSpec::pushed(scene.port)).await;
    let app = App::python(scene.platform(), &pod, scene.port, arguments).await.unwrap();
    (pod, app)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_handler_accepts() {
    let scene = Scene::new("python-accept").await;
    let (pod, app) = python(&scene, &["--answer", "Accept", "--message", "idle"]).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(
        (first(&ended).answer, first(&ended).message.as_deref()),
        (Some(Answer::Accept), Some("idle"))
    );
    app.says(&format!("Ask by {ASKER}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_handler_delays_and_is_reminded_and_renews() {
    let scene = Scene::new("python-delay").await;
    let (pod, app) = python(&scene, &["--answer", "Delay", "--delay", "10"]).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let granted =
        scene.until(&evacuation, "a delay", |e| e.status.is_some() && first_delay(e).is_some()).await;
    let until = delay_end(&granted);
    app.says(&format!("Remind by {ASKER}")).await.unwrap();
    let renewed = scene.until(&evacuation, "a longer delay", |e| first_delay(e) > Some(until)).await;
    assert_eq!(first(&renewed).state, ResponderState::Active);
    assert!(scene.stays(&pod).await);
    assert!(Utc::now() < delay_end(&renewed) + TimeDelta::seconds(3));
}

fn first_delay(evacuation: &evacuation_api::Evacuation) -> Option<chrono::DateTime<Utc>> {
    Some(evacuation_e2e::scene::responder(evacuation, 0)?.delay_until?.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_handler_refuses_and_is_asked_again_when_it_said_and_learns_of_the_cancellation() {
    let scene = Scene::new("python-refuse").await;
    let (pod, app) =
        python(&scene, &["--answer", "Refuse", "--message", "a backup is running", "--retry-after", "2"])
            .await;
    let evacuation = scene.ask(&pod, json!({"onRefusal": "Wait"})).await;
    let refused = scene.until_condition(&evacuation, "Blocked", "Refused").await;
    let asked_at = first(&refused).answer_time.unwrap();
    app.says(&format!("Remind by {ASKER}")).await.unwrap();
    scene.until(&evacuation, "the second refusal", |e| first(e).answer_time > Some(asked_at)).await;
    scene.withdraw(&evacuation).await.unwrap();
    // By nobody: whoever asked has left.
    app.says("Cancel by").await.unwrap();
    let known = scene
        .until(&evacuation, "the cancellation is acknowledged", |e| first(e).cancellation_acknowledged)
        .await;
    assert_eq!(first(&known).state, ResponderState::Canceled);
    assert!(scene.stays(&pod).await);
}

/// The shortest delay is one that the controller renews in time, of several apps at once, too.
#[tokio::test(flavor = "multi_thread")]
async fn apps_that_delay_by_a_second_again_and_again_are_evicted_only_when_they_accept() {
    const DELAYS: usize = 5;
    let scene = Scene::new("seconds").await;
    let mut asked = Vec::new();
    for number in 0..4 {
        let pod = scene.pod(&format!("app-{number}"), PodSpec::pushed(scene.port)).await;
        let replies = AtomicUsize::new(0);
        let endpoint = Endpoint::of(&pod, scene.port, move |question| {
            let is_done = replies.fetch_add(1, Ordering::Relaxed) >= DELAYS;
            let delay = json!({"answer": "Delay", "delaySeconds": 1});
            Reply::Json(answering(question, if is_done { json!({"answer": "Accept"}) } else { delay }))
        });
        let endpoint = endpoint.await.unwrap();
        asked.push((scene.ask(&pod, json!({})).await, endpoint));
    }
    for (evacuation, endpoint) in asked {
        let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
        let responder = first(&ended);
        assert_eq!(
            (responder.state, responder.answer),
            (ResponderState::Completed, Some(Answer::Accept)),
            "{responder:?}"
        );
        let evicted = scene.evicted_once(&evacuation.spec.target.pod.name);
        assert!(responder.answer_time.unwrap().0 < evicted, "{evicted}: {responder:?}");
        assert!(endpoint.asked().len() > DELAYS, "it was reminded before each delay ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_requester_is_a_new_question_to_an_endpoint_that_refused() {
    let scene = Scene::new("later").await;
    let pod = scene.pod("app", PodSpec::pushed(scene.port)).await;
    let endpoint = Endpoint::of(&pod, scene.port, |question| {
        let refuse = json!({"answer": "Refuse", "reason": "Busy"});
        // It lets the pod go for the one who came later.
        let accept = question.requesters.len() > 1;
        Reply::Json(answering(question, if accept { json!({"answer": "Accept"}) } else { refuse }))
    })
    .await
    .unwrap();
    let evacuation = scene.ask(&pod, json!({"onRefusal": "Wait"})).await;
    scene.until_condition(&evacuation, "Blocked", "Refused").await;
    let entries = [
        entry(ASKER, json!({"onRefusal": "Wait"})),
        entry("test.evacuation.dev/joins", json!({"onRefusal": "Wait"})),
    ];
    put_entries(&scene.evacuations(), &evacuation, &entries).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let again = endpoint.hears(ReviewAction::Remind).await.unwrap();
    assert_eq!(again.requesters.len(), 2, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_refused_and_named_no_time_is_asked_again_after_a_minute() {
    let scene = Scene::new("timeless").await;
    let pod = scene.pod("app", PodSpec::pushed(scene.port)).await;
    let endpoint = Endpoint::of(&pod, scene.port, |question| {
        let is_first = question.action == ReviewAction::Ask;
        Reply::Json(answering(question, json!({"answer": if is_first { "Refuse" } else { "Accept" }})))
    })
    .await
    .unwrap();
    let evacuation = scene.ask(&pod, json!({"onRefusal": "Wait"})).await;
    let refused = scene.until_condition(&evacuation, "Blocked", "Refused").await;
    let minute = first(&refused).answer_time.unwrap().0 + TimeDelta::minutes(1);
    let again = endpoint.hears_at(ReviewAction::Remind).await.unwrap();
    assert!(minute <= again && again < minute + LATE, "{minute} {again}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_names_the_pod_and_who_asks_and_until_when() {
    let scene = Scene::new("question").await;
    let pod = scene.pod("app", PodSpec::pushed(scene.port)).await;
    let endpoint = Endpoint::of(&pod, scene.port, |question| {
        Reply::Json(answering(question, json!({"answer": "Refuse", "reason": "Busy"})))
    })
    .await
    .unwrap();
    let more = json!({"reason": "NodeMaintenance", "message": "kernel upgrade", "onRefusal": "GiveUp"});
    let evacuation = scene.ask(&pod, more).await;
    let ended = scene.ends(&evacuation, "Failed Refused").await;
    let question = endpoint.hears(ReviewAction::Ask).await.unwrap();
    assert_eq!(
        (&question.evacuation.name, &question.evacuation.uid),
        (&evacuation.name_any(), &evacuation.uid().unwrap())
    );
    assert_eq!((question.pod.name.as_str(), &question.pod.uid), ("app", &pod.uid().unwrap()));
    assert_eq!(question.pod.namespace, scene.namespace());
    let requester = &question.requesters[0];
    assert_eq!(
        (requester.name.as_str(), requester.reason.as_deref(), requester.message.as_deref()),
        (ASKER, Some("NodeMaintenance"), Some("kernel upgrade"))
    );
    let answer_by = question.answer_by.unwrap().0;
    // The timeout counts from the delivery.
    assert!(answer_by >= first(&ended).active_time.unwrap().0 + TimeDelta::seconds(60));
    assert_eq!(first(&ended).reason.as_deref(), Some("Busy"));
    // The end of one that it refused is news for the app, too.
    endpoint.hears(ReviewAction::Cancel).await.unwrap();
    let count = endpoint.asked().iter().filter(|q| q.action == ReviewAction::Ask).count();
    assert_eq!(count, 1, "an answer that was taken is not asked for again");
}
