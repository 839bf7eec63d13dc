use futures::future::join_all;
use serde_json::json;

use crate::support::Kitchen;

const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

#[tokio::test]
async fn what_is_posted_to_an_action_is_carried_out_and_answered() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let answer = client.post(&format!("{A}/stir"), &json!({"times": 3})).await.expect(201);
    assert_eq!(answer["times"], 3);
    let through_view = "/apis/kitchen.dev/v1/namespaces/n/ownpots/a/stir";
    assert_eq!(client.post(through_view, &json!({"times": 2})).await.expect(201)["times"], 5);
    let dry = client.post(&format!("{A}/stir?dryRun=All"), &json!({"times": 1})).await.expect(201);
    assert_eq!(dry["times"], 6);
    assert_eq!(client.get(A).await.expect(200)["status"]["stirred"], 5);
}

#[tokio::test]
async fn an_action_refuses_what_it_cannot_read_and_other_methods() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let stir = format!("{A}/stir");
    client.post(&stir, &json!({"times": "often"})).await.refused(422, "Invalid");
    client.post(&stir, &json!({"kind": "Pot", "times": 1})).await.refused(400, "BadRequest");
    client.get(&stir).await.refused(405, "MethodNotAllowed");
    client.post(&format!("{A}/burn"), &json!({})).await.refused(404, "NotFound");
    let none = "/apis/kitchen.dev/v1/namespaces/n/pots/none/stir";
    client.post(none, &json!({"times": 1})).await.refused(404, "NotFound");
}

#[tokio::test]
async fn what_is_posted_to_an_action_is_short() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let long = json!({"times": 1, "metadata": {"annotations": {"why": "x".repeat(64 * 1024)}}});
    let answer = client.post(&format!("{A}/stir"), &long).await;
    answer.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn concurrent_actions_lose_nothing() {
    let kitchen = Kitchen::open().await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let stirs = (0..50).map(|_| {
        let client = kitchen.client();
        async move { client.post(&format!("{A}/stir"), &json!({"times": 1})).await.expect(201) }
    });
    join_all(stirs).await;
    assert_eq!(kitchen.client().get(A).await.expect(200)["status"]["stirred"], 50);
}
