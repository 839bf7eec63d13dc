//! Two controllers and a pushed app: the leader is killed before, during and after the delivery of the
//! question, and stopped while a reminder is due.

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{TimeDelta, Utc};
use evacuation_api::{Answer, Evacuation, ResponderState, ReviewAction};
use evacuation_e2e::{Endpoint, PodSpec, Reply, Scene, answering, scene::first};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::time::sleep;

use crate::worker;

/// Timeout of the app, in seconds: much shorter than the time until the other controller leads.
const TIMEOUT: i64 = 3;

/// A pod whose app is pushed to, and an Evacuation of it that is Active.
async fn asked(scene: &Scene) -> (Pod, Evacuation) {
    scene.platform().start_controllers().await.unwrap();
    let http = json!([{"name": "self", "http": {"port": scene.port}, "timeoutSeconds": TIMEOUT}]);
    let pod = scene.pod("app", PodSpec::registered(&http)).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    (pod, evacuation)
}

/// The app's answer was heard: the pod is evicted because the app accepted.
async fn accepted(scene: &Scene, evacuation: &Evacuation, endpoint: &Endpoint) {
    let ended = scene.ends(evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!(
        (responder.state, responder.answer),
        (ResponderState::Completed, Some(Answer::Accept)),
        "the app was skipped: {responder:?}"
    );
    assert!(!endpoint.asked().is_empty());
    assert_eq!(scene.evicted().len(), 1, "the pod was evicted once");
}

/// Silence counts from the first delivered question.
///
/// # Attack
///
/// - Attacker: an outage of the controller
/// - Act: falls between the record of a question and its delivery
/// - Promise: 9
#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_question_was_not_delivered_when_the_leader_died_is_asked_by_the_next() {
    let scene = worker::scene("before").await;
    // Nobody listens yet, so the leader delivers nothing.
    let (pod, evacuation) = asked(&scene).await;
    scene.kill_controller();
    let accept = |question: &_| Reply::Json(answering(question, json!({"answer": "Accept"})));
    let endpoint = Endpoint::of(&pod, scene.port, accept).await.unwrap();
    accepted(&scene, &evacuation, &endpoint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_reply_was_under_way_when_the_leader_died_is_asked_again() {
    let scene = worker::scene("during").await;
    let asks = AtomicUsize::new(0);
    let (pod, evacuation) = asked(&scene).await;
    let endpoint = Endpoint::of(&pod, scene.port, move |question| {
        if asks.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::Hang;
        }
        Reply::Json(answering(question, json!({"answer": "Accept"})))
    });
    let endpoint = endpoint.await.unwrap();
    endpoint.hears(ReviewAction::Ask).await.unwrap();
    scene.kill_controller();
    accepted(&scene, &evacuation, &endpoint).await;
    assert!(endpoint.asked().len() > 1, "the next leader asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_delay_was_recorded_before_the_leader_died_keeps_its_time_and_is_only_reminded() {
    let scene = worker::scene("after").await;
    let (pod, evacuation) = asked(&scene).await;
    let endpoint = Endpoint::of(&pod, scene.port, move |question| {
        let answer = match question.action {
            ReviewAction::Ask => json!({"answer": "Delay", "delaySeconds": 60}),
            _ => json!({"answer": "Accept"}),
        };
        Reply::Json(answering(question, answer))
    });
    let endpoint = endpoint.await.unwrap();
    scene.answered(&evacuation, Answer::Delay).await;
    scene.kill_controller();
    accepted(&scene, &evacuation, &endpoint).await;
    let actions: Vec<ReviewAction> = endpoint.asked().iter().map(|question| question.action).collect();
    assert_eq!(actions, [ReviewAction::Ask, ReviewAction::Remind]);
}

/// What nobody asked in time is no silence of the app.
///
/// # Attack
///
/// - Attacker: a node that is short of CPU
/// - Act: stops the controller while a reminder is due and the delay of an app ends
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_reminder_is_late_is_asked_before_its_delay_ends() {
    let scene = worker::scene("late").await;
    let pod = scene.pod("app", PodSpec::pushed(scene.port)).await;
    let endpoint = Endpoint::of(&pod, scene.port, move |question| {
        let answer = match question.action {
            ReviewAction::Ask => json!({"answer": "Delay", "delaySeconds": 1}),
            _ => json!({"answer": "Accept"}),
        };
        Reply::Json(answering(question, answer))
    });
    let endpoint = endpoint.await.unwrap();
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let asked = scene.answered(&evacuation, Answer::Delay).await;
    let (since, until) = asked.answer_time.zip(asked.delay_until).unwrap();
    assert_eq!((until.0 - since.0).num_seconds(), 10, "long enough for a reminder");
    // The reminder is due after two thirds. A longer stop would cost the leader its lease.
    let at = async |milliseconds| {
        let time = until.0 + TimeDelta::milliseconds(milliseconds);
        sleep((time - Utc::now()).to_std().unwrap_or_default()).await;
    };
    let leader = &scene.platform().controllers()[0];
    at(-3800).await;
    leader.pause().unwrap();
    at(300).await;
    leader.resume().unwrap();
    accepted(&scene, &evacuation, &endpoint).await;
    let actions: Vec<ReviewAction> = endpoint.asked().iter().map(|question| question.action).collect();
    assert_eq!(actions, [ReviewAction::Ask, ReviewAction::Remind]);
}
