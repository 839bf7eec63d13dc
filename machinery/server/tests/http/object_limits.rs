//! Limits on the number and size of the objects of a namespace.

use futures::future::join_all;
use machinery_server::ObjectLimits;
use machinery_storage::{Operation, Store, Transaction};
use serde_json::{Value, json};

use crate::support::{Kitchen, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

async fn kitchen(limits: ObjectLimits) -> Kitchen {
    Kitchen::with(Setup { limits: Some(limits), ..Setup::default() }).await
}

fn soup(name: &str) -> Value {
    pot(name, json!({"dish": "soup"}))
}

fn sized(name: &str, size: usize) -> Value {
    pot(name, json!({"dish": "x".repeat(size)}))
}

#[tokio::test]
async fn of_many_creates_at_once_as_many_succeed_as_the_namespace_has_room_for() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 16, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    let answers = join_all((0..60).map(|at| {
        let client = client.clone();
        async move { client.post(POTS, &soup(&format!("p{at}"))).await }
    }))
    .await;
    let created = answers.iter().filter(|answer| answer.code == 201).count();
    assert_eq!(created, 12, "a quarter of sixteen is reserved");
    let refused = answers.iter().find(|answer| answer.code != 201).expect("a refusal");
    let status = refused.refused(403, "Forbidden");
    let cause = json!({
        "reason": "NamespaceObjectLimit",
        "message": "objects of the namespace: requested 1, used 12, limit 12",
    });
    assert_eq!(status["details"]["causes"], json!([cause]), "{status}");
    let message = status["message"].as_str().expect("text");
    assert!(message.contains("is forbidden: exceeded the limit on objects of the namespace"), "{message}");
    client.post("/apis/kitchen.dev/v1/namespaces/m/pots", &soup("p")).await.expect(201);
}

#[tokio::test]
async fn a_full_namespace_keeps_room_for_those_who_act_for_all_namespaces() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 4, ..ObjectLimits::NONE }).await;
    let (cook, chef) = (kitchen.client(), kitchen.client_of("chef"));
    for name in ["a", "b", "c"] {
        cook.post(POTS, &soup(name)).await.expect(201);
    }
    cook.post(POTS, &soup("d")).await.refused(403, "Forbidden");
    chef.post(POTS, &soup("d")).await.expect(201);
    chef.post(POTS, &soup("e")).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_deletion_in_a_full_namespace_succeeds_and_makes_room_at_once() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 1, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    for _ in 0..20 {
        client.post(POTS, &soup("a")).await.expect(201);
        client.post(POTS, &soup("b")).await.refused(403, "Forbidden");
        client.delete(A).await.expect(200);
    }
}

#[tokio::test]
async fn an_update_that_grows_is_limited_and_one_of_the_status_is_not() {
    let kitchen = kitchen(ObjectLimits { namespace_bytes: 4000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &sized("a", 1000)).await.expect(201);
    client.post(POTS, &sized("b", 2000)).await.refused(403, "Forbidden");
    let annotated = |size: usize| json!({"metadata": {"annotations": {"why": "x".repeat(size)}}});
    let status = client.merge(A, &annotated(2000)).await.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceByteLimit", "{status}");
    client.merge(A, &annotated(500)).await.expect(200);

    // As from before there was a limit.
    let full =
        Operation::Put("/registry/kitchen.dev/pots/n/old".to_owned(), sized("old", 9000).to_string().into());
    let write = Transaction { preconditions: Vec::new(), operations: vec![full] };
    kitchen.store.commit(write).await.expect("written");
    client.get(POTS).await.expect(200);
    client.merge(A, &annotated(501)).await.refused(403, "Forbidden");
    client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    client.post(&format!("{A}/stir"), &json!({"times": 1_000_000_000})).await.expect(201);
    client.merge(A, &annotated(100)).await.expect(200);
    client.delete(&format!("{POTS}/old")).await.expect(200);
    client.merge(A, &annotated(501)).await.expect(200);
}

#[tokio::test]
async fn all_namespaces_together_have_a_limit() {
    let kitchen = kitchen(ObjectLimits { total_bytes: 4000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &sized("a", 2000)).await.expect(201);
    let elsewhere = client.post("/apis/kitchen.dev/v1/namespaces/m/pots", &sized("a", 2000)).await;
    let status = elsewhere.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "TotalByteLimit", "{status}");
}

#[tokio::test]
async fn refusals_and_usage_are_measured() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 1, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &soup("a")).await.expect(201);
    client.post(POTS, &soup("b")).await.refused(403, "Forbidden");
    let text = client.get("/metrics").await.text();
    let pots = r#"{group="kitchen.dev",resource="pots"} 1"#;
    for name in [
        "apiserver_resource_objects",
        "apiserver_storage_largest_namespace_objects",
        "apiserver_storage_limit_refusals_total",
    ] {
        assert!(text.contains(&format!("{name}{pots}\n")), "{name}: {text}");
    }
}

#[tokio::test]
async fn the_cache_is_filled_in_pages_that_are_small_when_the_objects_are_large() {
    for (size, largest) in [(10, 150), (50_000, 100)] {
        let mut first = Kitchen::open().await;
        let client = first.client();
        let pots: Vec<_> = (0..250).map(|at| sized(&format!("p{at}"), size)).collect();
        for pots in pots.chunks(50) {
            join_all(pots.iter().map(|pot| client.post(POTS, pot))).await;
        }
        first.close().await;
        let again = Kitchen::with(first.setup_again()).await;
        let list = again.client().get(&format!("{POTS}?limit=1")).await.expect(200);
        assert_eq!(list["metadata"]["remainingItemCount"], 249);
        assert_eq!(again.store.largest_page(), largest, "{size} bytes each");
    }
}
