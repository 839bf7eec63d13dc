use machinery_server::NamespaceState;
use serde_json::{Value, json};

use crate::support::{Kitchen, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test]
async fn a_deleted_object_is_gone_and_the_reply_names_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let status = client.delete(A).await.expect(200);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    let details =
        json!({"name": "a", "group": "kitchen.dev", "kind": "pots", "uid": created["metadata"]["uid"]});
    assert_eq!(status["details"], details);
    client.get(A).await.refused(404, "NotFound");
    client.delete(A).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_failed_precondition_protects_the_object() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let conflicts = [json!({"uid": "another"}), json!({"resourceVersion": "1"})];
    for preconditions in conflicts {
        client.delete_with(A, &json!({"preconditions": preconditions})).await.refused(409, "Conflict");
    }
    let metadata = &created["metadata"];
    for query in ["uid=another", "resourceVersion=1"] {
        client.delete(&format!("{A}?{query}")).await.refused(409, "Conflict");
    }
    client.delete(&format!("{POTS}?resourceVersion=0&labelSelector=none")).await.expect(200);
    let preconditions = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    client.delete_with(A, &json!({"preconditions": preconditions})).await.expect(200);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_one_goes() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut body = pot("a", json!({"dish": "soup"}));
    body["metadata"]["finalizers"] = json!(["kitchen.dev/wash", "kitchen.dev/dry"]);
    client.post(POTS, &body).await.expect(201);
    let held = client.delete(A).await.expect(200);
    assert_eq!(held["kind"], "Pot");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(held["metadata"]["generation"], 2);
    let again = client.delete(A).await.expect(200);
    assert_eq!(again, held, "nothing more to do");

    let more =
        json!({"metadata": {"finalizers": ["kitchen.dev/wash", "kitchen.dev/dry", "kitchen.dev/new"]}});
    let status = client.merge(A, &more).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueForbidden");
    let fewer = client.merge(A, &json!({"metadata": {"finalizers": ["kitchen.dev/dry"]}})).await.expect(200);
    assert_eq!(fewer["metadata"]["deletionTimestamp"], held["metadata"]["deletionTimestamp"]);
    client.merge(A, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    client.get(A).await.refused(404, "NotFound");
}

#[tokio::test]
async fn propagation_is_left_to_the_garbage_collector_by_its_finalizers() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let held = client.delete_with(A, &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let held = client.delete(&format!("{A}?propagationPolicy=Orphan")).await.expect(200);
    assert_eq!(held["metadata"]["finalizers"], json!(["orphan"]));
    client.delete_with(A, &json!({"propagationPolicy": "Background"})).await.expect(200);
    client.get(A).await.refused(404, "NotFound");
    client.delete(&format!("{A}?propagationPolicy=Never")).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.delete_with(A, &json!({"dryRun": ["All"]})).await.expect(200);
    client.delete(&format!("{A}?dryRun=All")).await.expect(200);
    client.get(A).await.expect(200);
}

#[tokio::test]
async fn the_strategy_learns_that_the_namespace_is_terminating() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut body = pot("a", json!({"dish": "soup"}));
    body["metadata"]["labels"] = json!({"locked": "yes"});
    client.post(POTS, &body).await.expect(201);
    let status = client.delete(A).await.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "Locked");
    kitchen.namespaces.set("n", NamespaceState::Terminating);
    client.delete(A).await.expect(200);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_selectors() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for (name, dish) in [("a", "soup"), ("b", "soup"), ("c", "stew")] {
        let mut body = pot(name, json!({"dish": dish}));
        body["metadata"]["labels"] = json!({"name": name});
        client.post(POTS, &body).await.expect(201);
    }
    let deleted = client
        .delete(&format!("{POTS}?labelSelector=name%20in%20(a,c)&fieldSelector=spec.dish%3Dsoup"))
        .await;
    let deleted = deleted.expect(200);
    assert_eq!((&deleted["kind"], names(&deleted)), (&json!("PotList"), vec!["a"]));
    assert_eq!(names(&client.get(POTS).await.expect(200)), ["b", "c"]);
    client.delete_with(POTS, &json!({"dryRun": ["All"]})).await.expect(200);
    assert_eq!(names(&client.get(POTS).await.expect(200)), ["b", "c"]);
    client.delete(POTS).await.expect(200);
    assert!(names(&client.get(POTS).await.expect(200)).is_empty());
}
