//! Accept, Delay and silence.

use chrono::{TimeDelta, Utc};
use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{CONTROLLER, LATE, answer, delay_end, fields, first, in_millis, refused_for},
};
use kube::ResourceExt;
use serde_json::{Value, json};

fn delay(seconds: i64) -> Value {
    json!({"answer": "Delay", "delaySeconds": seconds})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_accepts_is_evicted_at_once_and_not_before() {
    let scene = Scene::new("accept").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    assert!(scene.stays(&pod).await);
    let app = scene.client_of(&pod).await;
    let accept = || json!({"answer": "Accept", "reason": "Idle", "message": "nothing to do"});
    answer(&app, &evacuation, accept()).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!(
        (responder.state, responder.answer, responder.reason.as_deref(), responder.message.as_deref()),
        (ResponderState::Completed, Some(Answer::Accept), Some("Idle"), Some("nothing to do"))
    );
    let (accepted, evicted) = (responder.answer_time.unwrap().0, scene.evicted_at("app"));
    assert!(accepted < evicted && evicted < accepted + LATE, "{accepted} {evicted}");
    let calls = scene.evictions("app");
    assert_eq!((calls.len(), calls[0].user()), (1, CONTROLLER));
    let body = calls[0].value().pointer("/requestObject/deleteOptions/preconditions/uid");
    assert_eq!(body.and_then(Value::as_str), pod.metadata.uid.as_deref());
    scene.pods.gone(&pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_is_granted_and_renewed_and_lapses_at_its_end_and_not_before() {
    let scene = Scene::new("delay").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    let before = Utc::now();
    let granted = answer(&app, &evacuation, delay(600)).await.unwrap();
    assert_eq!((granted.granted_seconds, &granted.message), (Some(600), &None));
    let until = granted.delay_until.unwrap().0;
    assert!(until >= before + TimeDelta::seconds(600) && until <= Utc::now() + TimeDelta::seconds(600));
    assert_eq!(delay_end(&scene.get(&evacuation).await), until);

    // A renewal replaces what is left, a shorter one too.
    let renewed = answer(&app, &evacuation, delay(3)).await.unwrap();
    let until = renewed.delay_until.unwrap().0;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!((responder.state, responder.answer), (ResponderState::Interrupted, Some(Answer::Delay)));
    let evicted = scene.evicted_at("app");
    assert!(until <= evicted && evicted < until + LATE, "{until} {evicted}");
    let said = scene.event("Evacuation", &evacuation.name_any(), "Silent").await;
    assert!(said.contains("its delay ran out"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_ends_at_the_deadline_and_the_app_is_told_so() {
    let scene = Scene::new("cut").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let app = scene.client_of(&pod).await;
    let more = json!({"deadline": in_millis(10_000), "atDeadline": "Evict"});
    let evacuation = scene.ask_and_reach(&pod, more).await;
    let deadline = evacuation.spec.requesters[0].deadline.unwrap().time();
    let granted = answer(&app, &evacuation, delay(60)).await.unwrap();
    assert!((1..=10).contains(&granted.granted_seconds.unwrap()), "{granted:?}");
    assert!(granted.delay_until.unwrap().0 <= deadline);
    assert!(granted.message.as_ref().unwrap().contains("the deadline of requester"), "{granted:?}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
    assert!(granted.delay_until.unwrap().0 <= scene.evicted_at("app"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_delays_together_last_no_longer_than_was_registered() {
    let scene = Scene::new("total").await;
    let spec = PodSpec::registered(&json!([{"name": "self", "maxDelaySeconds": 10}]));
    let pod = scene.pod("app", spec).await;
    let app = scene.client_of(&pod).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let end = first(&evacuation).active_time.unwrap().0 + TimeDelta::seconds(10);
    let granted = answer(&app, &evacuation, delay(60)).await.unwrap();
    assert!(granted.delay_until.unwrap().0 <= end, "{granted:?}");
    assert!(granted.message.as_ref().unwrap().contains("longest total delay"), "{granted:?}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_no_whole_second_is_left_a_delay_is_refused_and_another_answer_is_not() {
    let scene = Scene::new("exhausted").await;
    let spec = PodSpec::registered(&json!([{"name": "self", "maxDelaySeconds": 1}]));
    let pod = scene.pod("app", spec).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    let refused = answer(&app, &evacuation, delay(1)).await;
    let status = refused_for(refused, 422, "DelayExhausted");
    assert_eq!(fields(&status), ["spec.delaySeconds"]);
    assert!(status.message.contains("the longest total delay of 1 s"), "{status:?}");
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_silent_past_its_timeout_is_passed_over_and_not_before() {
    let scene = Scene::new("silence").await;
    let spec = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 3}]));
    let pod = scene.pod("app", spec).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let lapse = first(&evacuation).active_time.unwrap().0 + TimeDelta::seconds(3);
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!((responder.state, responder.answer), (ResponderState::Interrupted, None));
    assert_eq!(responder.message.as_deref(), Some("it was silent for 3 s"));
    let evicted = scene.evicted_at("app");
    assert!(lapse <= evicted && evicted < lapse + LATE, "{lapse} {evicted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_binds_and_may_be_said_twice() {
    let scene = Scene::new("binds").await;
    let pod = scene.pod("app", PodSpec::watching().label("app", "a")).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    scene.pods.budget("app", ("app", "a"), 0).await.unwrap();
    let app = scene.client_of(&pod).await;
    let accept = || json!({"answer": "Accept"});
    answer(&app, &evacuation, accept()).await.unwrap();
    let blocked = scene.until_condition(&evacuation, "Blocked", "BudgetNotComputed").await;
    answer(&app, &evacuation, accept()).await.unwrap();
    for other in [delay(60), json!({"answer": "Refuse"})] {
        refused_for(answer(&app, &evacuation, other).await, 409, "ResponderNotActive");
    }
    let now = scene.get(&evacuation).await;
    assert_eq!(first(&now).answer_time, first(&blocked).answer_time);
}
