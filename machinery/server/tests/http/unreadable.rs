use bytes::Bytes;
use machinery_storage::{Operation, Store, Transaction};
use serde_json::json;

use crate::support::{Kitchen, eventually, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const KEY: &str = "/registry/kitchen.dev/pots/n/a";

/// Writes past the server, as another version of it would.
async fn write(kitchen: &Kitchen, operation: Operation) {
    let transaction = Transaction { preconditions: Vec::new(), operations: vec![operation] };
    kitchen.store.commit(transaction).await.expect("written");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_never_reported_as_deleted() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let first = client.create_pot("a", json!({"dish": "soup"})).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watch.event().await.1, "a");
    assert_eq!(watch.event().await.1, "b");
    let mut other = client.watch("/apis/kitchen.dev/v1/namespaces/m/pots?watch=true").await;

    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"{}"))).await;
    assert_eq!(watch.next().await, None, "the end, and no deletion");
    for path in [
        POTS.to_owned(),
        "/apis/kitchen.dev/v1/pots".to_owned(),
        format!("{POTS}?resourceVersion=0"),
        format!("{POTS}?limit=1"),
        format!("{POTS}?watch=true"),
        format!("{POTS}/a?resourceVersion=0"),
    ] {
        let status = client.get(&path).await.refused(500, "StorageReadError");
        let cause = &status["details"]["causes"][0];
        assert_eq!((&cause["reason"], &cause["field"]), (&json!("UnexpectedServerResponse"), &json!("n/a")));
        let message = status["message"].as_str().expect("text");
        assert!(message.contains("n/a"), "{path}: {message}");
    }
    client.get(&format!("{POTS}/a")).await.refused(500, "InternalError");
    client.get(&format!("{POTS}/b")).await.expect(200);
    let elsewhere = "/apis/kitchen.dev/v1/namespaces/m/pots";
    client.get(elsewhere).await.expect(200);
    client.post(elsewhere, &crate::support::pot("c", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(other.event().await.1, "c", "other namespaces go on");

    write(&kitchen, Operation::Delete(KEY.to_owned())).await;
    eventually("the rest can be listed", || async { client.get(POTS).await.code == 200 }).await;
    let items = client.get(POTS).await.expect(200)["items"].clone();
    assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
    let old = format!("{POTS}?watch=true&resourceVersion={}", revision(&first));
    let event = client.watch(&old).await.next().await.expect("an event");
    assert_eq!(event["object"]["reason"], "Expired", "{event}");
}

#[tokio::test]
async fn objects_that_cannot_be_read_at_the_start_are_reported_too() {
    let mut kitchen = Kitchen::open().await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    kitchen.close().await;
    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"[]"))).await;
    let kitchen = Kitchen::with(kitchen.setup_again()).await;
    let status = kitchen.client().get(POTS).await.refused(500, "StorageReadError");
    assert!(status["message"].as_str().expect("text").contains("n/a"), "{status}");
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_deleted_by_callers_with_the_right_and_the_option() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"{}"))).await;
    let (one, chef) = (format!("{POTS}/a"), kitchen.client_of("chef"));
    let ignoring = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});

    chef.delete(&one).await.refused(500, "InternalError");
    let status = client.delete_with(&one, &ignoring).await.refused(403, "Forbidden");
    assert_eq!(
        status["message"],
        "pots.kitchen.dev \"a\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: cooks \
         are careful"
    );
    let mut wrong = ignoring.clone();
    wrong["propagationPolicy"] = json!("Orphan");
    wrong["preconditions"] = json!({"uid": "u"});
    let status = chef.delete_with(&one, &wrong).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(2), "{status}");
    chef.delete_with(POTS, &ignoring).await.refused(422, "Invalid");
    chef.delete_with(&format!("{POTS}/b"), &ignoring).await.refused(409, "Conflict");
    chef.delete_with(&format!("{POTS}/none"), &ignoring).await.refused(404, "NotFound");
    chef.delete_with(&format!("{one}?dryRun=All"), &ignoring).await.expect(200);
    client.get(&one).await.refused(500, "InternalError");

    let query = format!("{one}?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    assert_eq!(chef.delete(&query).await.expect(200)["status"], "Success");
    client.get(&one).await.refused(404, "NotFound");
    eventually("the rest can be listed", || async { client.get(POTS).await.code == 200 }).await;
    client.create_pot("c", json!({"dish": "soup", "stove": "1"})).await;
}
