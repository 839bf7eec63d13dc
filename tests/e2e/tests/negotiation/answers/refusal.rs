//! Refusals, and what the requesters' policy makes of them.

use chrono::{TimeDelta, Utc};
use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{answer, condition, first, status},
};
use kube::ResourceExt;
use serde_json::{Value, json};

fn refuse() -> Value {
    json!({"answer": "Refuse", "reason": "BackupRunning", "message": "a backup is running", "retryAfterSeconds": 600})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_under_give_up_ends_it_and_the_pod_stays() {
    let scene = Scene::new("give-up").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "GiveUp"})).await;
    let app = scene.client_of(&pod).await;
    answer(&app, &evacuation, refuse()).await.unwrap();
    let ended = scene.ends(&evacuation, "Failed Refused").await;
    assert_eq!(first(&ended).answer, Some(Answer::Refuse));
    let said = &condition(&ended, "Failed").unwrap().message;
    assert!(said.contains("self refused: BackupRunning: a backup is running"), "{said}");
    let said = scene.event("Pod", "app", "Failed").await;
    assert!(said.contains("left alone"), "{said}");
    assert!(scene.stays(&pod).await);
    assert!(scene.evictions("app").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_under_wait_is_waited_out_and_may_be_taken_back() {
    let scene = Scene::new("wait").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "Wait"})).await;
    let app = scene.client_of(&pod).await;
    let before = Utc::now();
    answer(&app, &evacuation, refuse()).await.unwrap();
    let blocked = scene.until_condition(&evacuation, "Blocked", "Refused").await;
    let responder = first(&blocked);
    assert_eq!((responder.state, responder.answer), (ResponderState::Active, Some(Answer::Refuse)));
    let retry = responder.retry_time.unwrap().0;
    assert!(retry >= before + TimeDelta::seconds(600) && retry <= Utc::now() + TimeDelta::seconds(600));
    let blockers = status(&blocked).eviction.unwrap().blocked_by;
    assert_eq!((blockers[0].kind.as_str(), blockers[0].name.as_str()), ("Responder", "self"));
    let said = scene.event("Evacuation", &evacuation.name_any(), "Refused").await;
    assert!(said.contains("a backup is running"), "{said}");
    assert!(scene.stays(&pod).await);
    assert!(scene.evictions("app").is_empty());

    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(condition(&ended, "Blocked").unwrap().status, "False");
    assert_eq!(first(&ended).retry_time, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_under_override_is_recorded_and_overridden() {
    let scene = Scene::new("override").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "Override"})).await;
    answer(&scene.client_of(&pod).await, &evacuation, refuse()).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!((responder.state, responder.answer), (ResponderState::Completed, Some(Answer::Refuse)));
    assert_eq!(responder.message.as_deref(), Some("a backup is running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harder_requester_who_joins_overrides_a_refusal_that_was_waited_out() {
    let scene = Scene::new("hardest").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "Wait"})).await;
    answer(&scene.client_of(&pod).await, &evacuation, refuse()).await.unwrap();
    scene.until_condition(&evacuation, "Blocked", "Refused").await;
    let mut entries = json!(evacuation.spec.requesters);
    let harder = json!({"name": "test.evacuation.dev/harder", "onRefusal": "Override"});
    entries.as_array_mut().unwrap().push(harder);
    let patch = kube::api::Patch::Merge(json!({"spec": {"requesters": entries}}));
    scene
        .evacuations()
        .patch(&evacuation.name_any(), &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
}
