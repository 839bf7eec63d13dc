use serde_json::json;

use crate::support::{Kitchen, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const OWN: &str = "/apis/kitchen.dev/v1/namespaces/n/ownpots";

#[tokio::test]
async fn a_view_shows_each_caller_its_own_and_nothing_else() {
    let kitchen = Kitchen::open().await;
    let (cook, baker) = (kitchen.client(), kitchen.client_of("baker"));
    let created = cook.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    baker.create_pot("b", json!({"dish": "bread"})).await;
    let list = cook.get(OWN).await.expect(200);
    assert_eq!(list["kind"], "OwnPotList");
    let expected = json!({
        "apiVersion": "kitchen.dev/v1", "kind": "OwnPot", "metadata": created["metadata"], "dish": "soup",
    });
    assert_eq!(list["items"], json!([expected]));
    assert_eq!(cook.get(&format!("{OWN}/a")).await.expect(200), expected);
    let status = cook.get(&format!("{OWN}/b")).await.refused(404, "NotFound");
    assert_eq!(status["message"], "ownpots.kitchen.dev \"b\" not found");
    cook.get(&format!("{OWN}/none")).await.refused(404, "NotFound");
    for (name, seen) in [("a", json!([expected])), ("b", json!([]))] {
        let list = cook.get(&format!("{OWN}?fieldSelector=metadata.name%3D{name}")).await.expect(200);
        assert_eq!(list["items"], seen, "{name}");
    }
    for path in [OWN.to_owned(), format!("{OWN}/a"), format!("{OWN}?watch=true")] {
        kitchen.client_of("inspector").get(&path).await.refused(403, "Forbidden");
    }
}

#[tokio::test]
async fn a_watch_of_a_view_reports_what_comes_into_view_and_goes_out_of_it() {
    let kitchen = Kitchen::open().await;
    let (cook, baker) = (kitchen.client(), kitchen.client_of("baker"));
    let first = baker.create_pot("a", json!({"dish": "soup"})).await;
    let mut watch = cook.watch(&format!("{OWN}?watch=true&resourceVersion={}", revision(&first))).await;
    let path = format!("{POTS}/a");
    let given = baker.merge(&path, &json!({"spec": {"owner": "cook"}})).await.expect(200);
    let changed = baker.merge(&path, &json!({"spec": {"servings": 5}})).await.expect(200);
    let taken = baker.merge(&path, &json!({"spec": {"owner": "baker"}})).await.expect(200);
    baker.merge(&path, &json!({"spec": {"servings": 6}})).await.expect(200);
    let back = baker.merge(&path, &json!({"spec": {"owner": "cook"}})).await.expect(200);
    baker.delete(&path).await.expect(200);
    let expected = [
        ("ADDED", revision(&given)),
        ("MODIFIED", revision(&changed)),
        ("DELETED", revision(&taken)),
        ("ADDED", revision(&back)),
        ("DELETED", revision(&back) + 1),
    ];
    for (event_type, version) in expected {
        assert_eq!(watch.event().await, (event_type.to_owned(), "a".to_owned(), version));
    }
}

#[tokio::test]
async fn a_view_of_all_namespaces_reads_only_the_namespace_that_it_can_show() {
    let kitchen = Kitchen::open().await;
    let local = kitchen.client_of("local");
    let all = "/apis/kitchen.dev/v1/ownpots";
    let mut watch = local.watch(&format!("{all}?watch=true")).await;
    // It would be seen if it were read.
    let elsewhere = "/apis/kitchen.dev/v1/namespaces/m/pots";
    local.post(elsewhere, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    local.create_pot("b", json!({"dish": "soup"})).await;
    assert_eq!(watch.event().await.1, "b");
    let list = local.get(all).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
}

#[tokio::test]
async fn bookmarks_go_through_a_view() {
    let kitchen = Kitchen::open().await;
    let created = kitchen.client_of("baker").create_pot("a", json!({"dish": "soup"})).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = kitchen.client().watch(&format!("{OWN}?{query}")).await;
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(event["object"]["kind"], "OwnPot");
    assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(revision(&event["object"]) >= revision(&created));
}
