use bytes::Bytes;
use futures::future::join_all;
use machinery_storage::{Operation, Store, Transaction};
use serde_json::json;

use crate::support::{Kitchen, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
const CLAIM: &str = "/registry/claims/kitchen.dev/pots/n/stove-1";

#[tokio::test]
async fn of_fifty_creates_with_one_claim_one_wins_and_the_others_learn_its_name() {
    let kitchen = Kitchen::open().await;
    let creates = (0..50).map(|at| {
        let client = kitchen.client();
        async move { client.post(POTS, &pot(&format!("p{at}"), json!({"dish": "soup", "stove": "1"}))).await }
    });
    let answers = join_all(creates).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.code == 201);
    assert_eq!(won.len(), 1);
    let winner = won[0].json()["metadata"]["name"].clone();
    for answer in lost {
        let cause = answer.refused(409, "AlreadyExists")["details"]["causes"][0].clone();
        assert_eq!(cause, json!({"reason": "StoveTaken", "message": winner}));
    }
    assert_eq!(kitchen.client().get(POTS).await.expect(200)["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_claim_is_free_again_when_its_object_lets_go_of_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let on_stove = |name: &str| pot(name, json!({"dish": "soup", "stove": "1"}));
    client.post(POTS, &on_stove("a")).await.expect(201);
    client.post(POTS, &on_stove("b")).await.refused(409, "AlreadyExists");

    // By its state, by a change of what it claims, by deletion, and by deletion that waits for a finalizer.
    client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    client.post(POTS, &on_stove("b")).await.expect(201);
    client.merge(&format!("{POTS}/b"), &json!({"spec": {"stove": "2"}})).await.expect(200);
    client.post(POTS, &on_stove("c")).await.expect(201);
    client.delete(&format!("{POTS}/c")).await.expect(200);
    let mut held = on_stove("d");
    held["metadata"]["finalizers"] = json!(["kitchen.dev/wash"]);
    client.post(POTS, &held).await.expect(201);
    client.delete(&format!("{POTS}/d")).await.expect(200);
    client.post(POTS, &on_stove("e")).await.expect(201);

    client.post(POTS, &pot("f", json!({"dish": "soup", "stove": "2"}))).await.refused(409, "AlreadyExists");
    let taken = client.merge(&format!("{POTS}/b"), &json!({"spec": {"stove": "1"}})).await;
    assert_eq!(taken.refused(409, "AlreadyExists")["message"], "stove 1 is taken by e");
}

#[tokio::test]
async fn claims_are_apart_by_namespace() {
    let kitchen = Kitchen::open().await;
    let body = pot("a", json!({"dish": "soup", "stove": "1"}));
    for namespace in ["n", "m"] {
        let path = format!("/apis/kitchen.dev/v1/namespaces/{namespace}/pots");
        kitchen.client().post(&path, &body).await.expect(201);
    }
}

#[tokio::test]
async fn a_claim_whose_holder_is_gone_is_taken_over() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    // As after a restore by hand: a claim of nobody, one of another object of that name, and one that says
    // nothing.
    let created = client.create_pot("z", json!({"dish": "soup"})).await;
    let leftovers = [
        json!({"namespace": "n", "name": "gone", "uid": "u"}).to_string(),
        json!({"namespace": "n", "name": "z", "uid": "another"}).to_string(),
        json!({"namespace": "n", "name": "z", "uid": created["metadata"]["uid"]}).to_string(),
        "nonsense".to_owned(),
    ];
    for leftover in leftovers {
        let put = Operation::Put(CLAIM.to_owned(), Bytes::from(leftover.clone()));
        let transaction = Transaction { preconditions: Vec::new(), operations: vec![put] };
        kitchen.store.commit(transaction).await.expect("written");
        client.post(POTS, &pot("a", json!({"dish": "soup", "stove": "1"}))).await.expect(201);
        let found = kitchen.store.get(CLAIM).await.expect("read").found.expect("a claim");
        let holder: serde_json::Value = serde_json::from_slice(&found.value).expect("JSON");
        assert_eq!(holder["name"], "a", "after {leftover}");
        client.delete(A).await.expect(200);
        assert!(kitchen.store.get(CLAIM).await.expect("read").found.is_none());
    }
}

#[tokio::test]
async fn an_object_does_not_release_the_claim_of_another_object() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    let other = json!({"namespace": "n", "name": "b", "uid": "u"}).to_string();
    let put = Operation::Put(CLAIM.to_owned(), Bytes::from(other));
    kitchen
        .store
        .commit(Transaction { preconditions: Vec::new(), operations: vec![put] })
        .await
        .expect("written");
    client.delete(A).await.expect(200);
    assert!(kitchen.store.get(CLAIM).await.expect("read").found.is_some());
}
