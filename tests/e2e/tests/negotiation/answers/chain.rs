//! Several responders, one after the other.

use evacuation_api::{Answer, Evacuation, ResponderState, ResponderState::*};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{User, answer, respond, responder, status},
};
use serde_json::{Value, json};

const FAILOVER: &str = "db.acme.io/failover";

/// An app that answers for itself, and a failover that is asked before.
fn chained() -> PodSpec {
    PodSpec::registered(&json!([{"name": "self"}, {"name": FAILOVER, "priority": 20000}]))
}

async fn operator(scene: &Scene) -> User {
    let user = scene.user("operator", &[]).await;
    let posting =
        json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations/respond"], "verbs": ["create"]});
    scene.grant(&user.name, posting).await;
    let right = json!({"apiGroups": ["evacuation.dev"], "resources": ["responders"], "verbs": ["respond"],
        "resourceNames": [FAILOVER]});
    scene.grant(&user.name, right).await;
    user
}

fn named(answer: &str) -> Value {
    json!({"answer": answer, "responder": FAILOVER})
}

fn states(evacuation: &Evacuation) -> Vec<(String, ResponderState)> {
    let all = status(evacuation).responders.unwrap_or_default();
    all.into_iter().map(|r| (r.name, r.state)).collect()
}

fn expected(failover: ResponderState, own: ResponderState) -> Vec<(String, ResponderState)> {
    vec![(FAILOVER.to_owned(), failover), ("self".to_owned(), own)]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highest_priority_is_asked_first_and_each_next_when_the_one_before_is_done() {
    let scene = Scene::new("chain").await;
    let (pod, operator) = tokio::join!(scene.pod("app", chained()), operator(&scene));
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    assert_eq!(states(&evacuation), expected(Active, Inactive));
    respond(&operator.client, &evacuation, named("Accept")).await.unwrap();
    let next = scene.reached(&evacuation, 1).await;
    assert_eq!(states(&next), expected(Completed, Active));
    assert!(scene.stays(&pod).await);
    answer(&scene.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(states(&ended), expected(Completed, Completed));
    let times: Vec<_> = (0..2).map(|n| responder(&ended, n).unwrap().active_time.unwrap()).collect();
    assert!(times[0] < times[1], "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_refusal_under_give_up_ends_it_and_the_next_is_not_asked() {
    let scene = Scene::new("chain-refused").await;
    let (pod, operator) = tokio::join!(scene.pod("app", chained()), operator(&scene));
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "GiveUp"})).await;
    respond(&operator.client, &evacuation, named("Refuse")).await.unwrap();
    let ended = scene.ends(&evacuation, "Failed Refused").await;
    assert_eq!(responder(&ended, 0).unwrap().answer, Some(Answer::Refuse));
    assert_eq!(responder(&ended, 1).unwrap().active_time, None);
    assert!(scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_accepted_learns_that_the_next_one_refused() {
    let scene = Scene::new("chain-learns").await;
    let (pod, operator) = tokio::join!(scene.pod("app", chained()), operator(&scene));
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "GiveUp"})).await;
    respond(&operator.client, &evacuation, named("Accept")).await.unwrap();
    scene.reached(&evacuation, 1).await;
    answer(&scene.client_of(&pod).await, &evacuation, json!({"answer": "Refuse"})).await.unwrap();
    let ended = scene.ends(&evacuation, "Failed Refused").await;
    assert_eq!(states(&ended), expected(Canceled, Canceled));
    let acknowledge = json!({"responder": FAILOVER, "acknowledgeCancellation": true});
    respond(&operator.client, &evacuation, acknowledge).await.unwrap();
    let known = scene.get(&evacuation).await;
    assert!(responder(&known, 0).unwrap().cancellation_acknowledged);
}
