//! Actions at a requester's deadline.

use evacuation_api::ResponderState;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{CONTROLLER, LATE, answer, condition, entry, first, in_millis, received, status, wanting},
};
use kube::api::PostParams;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn at_an_evict_deadline_whoever_is_left_is_skipped() {
    let scene = Scene::new("evict").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let app = scene.client_of(&pod).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"deadline": in_millis(10_000)})).await;
    answer(&app, &evacuation, json!({"answer": "Refuse"})).await.unwrap();
    let deadline = evacuation.spec.requesters[0].deadline.unwrap().time();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).state, ResponderState::Interrupted);
    assert!(first(&ended).message.as_ref().unwrap().contains("the deadline of requester"));
    assert!(status(&ended).policy.unwrap().deadlines[0].reached);
    let evicted = scene.evicted_at("app");
    assert!(deadline <= evicted && evicted < deadline + LATE, "{deadline} {evicted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_delete_deadline_the_pod_is_deleted_whatever_its_budget_says() {
    let scene = Scene::new("delete").await;
    let pod = scene.pod("app", PodSpec::default().label("app", "a")).await;
    scene.pods.budget("app", ("app", "a"), 0).await.unwrap();
    let more = json!({"deadline": in_millis(5000), "atDeadline": "Delete", "gracePeriodSeconds": 7});
    let evacuation = scene.ask(&pod, more).await;
    let deadline = evacuation.spec.requesters[0].deadline.unwrap().time();
    scene.ends(&evacuation, "Evacuated Deleted").await;
    let deletions = scene.deletions("app");
    assert_eq!((deletions.len(), deletions[0].user()), (1, CONTROLLER));
    let deleted = received(&deletions[0]);
    assert!(deadline <= deleted && deleted < deadline + LATE, "{deadline} {deleted}");
    scene.event("Pod", "app", "Deleted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_give_up_deadline_the_pod_is_left_alone() {
    let scene = Scene::new("give-up").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let app = scene.client_of(&pod).await;
    let more = json!({"deadline": in_millis(10_000), "atDeadline": "GiveUp"});
    let evacuation = scene.ask_and_reach(&pod, more).await;
    // A delay is not cut by a deadline that only ends the asking.
    let granted = answer(&app, &evacuation, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();
    assert_eq!(granted.granted_seconds, Some(600));
    let ended = scene.ends(&evacuation, "Failed DeadlineGaveUp").await;
    assert_eq!(first(&ended).state, ResponderState::Canceled);
    assert!(scene.stays(&pod).await);
    assert!(scene.evictions("app").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_acts_at_its_own_deadline_and_the_others_go_on() {
    let scene = Scene::new("schedule").await;
    scene.pod("app", PodSpec::watching()).await;
    let gives_up = json!({"deadline": in_millis(5000), "atDeadline": "GiveUp", "onRefusal": "Override"});
    let evicts = json!({"deadline": in_millis(15_000), "onRefusal": "Wait"});
    let wanted = wanting(
        "app",
        &[entry("test.evacuation.dev/gives-up", gives_up), entry("test.evacuation.dev/evicts", evicts)],
    );
    let created = scene.evacuations().create(&PostParams::default(), &wanted).await.unwrap();
    let policy = |evacuation: &evacuation_api::Evacuation| json!(status(evacuation).policy.unwrap());
    assert_eq!(policy(&created)["onRefusal"], json!("Override"));
    let lapsed = scene
        .until(&created, "the first entry lapses", |e| {
            policy(e).pointer("/deadlines/0/reached") == Some(&json!(true))
        })
        .await;
    assert_eq!(policy(&lapsed)["onRefusal"], json!("Wait"), "a lapsed entry counts no more");
    assert_eq!(policy(&lapsed).pointer("/deadlines/1/reached").and_then(Value::as_bool), None);
    assert_eq!(condition(&lapsed, "Finished"), None);
    let ended = scene.ends(&created, "Evacuated Evicted").await;
    assert_eq!(first(&ended).state, ResponderState::Interrupted);
}
