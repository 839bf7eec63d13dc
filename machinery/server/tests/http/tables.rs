use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::{COUNTED, COUNTED_CELLS, Kitchen};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
/// Header `Accept` of kubectl get.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
/// Header `Accept` of metadata clients, without the protobuf that they prefer.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

#[tokio::test]
async fn a_table_has_the_kinds_columns_between_name_and_age() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    let table = client.get_as(POTS, TABLE).await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let titles: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(titles, ["Name", "Dish", "Stove", "Age"]);
    assert_eq!(columns[2]["priority"], 1);
    let row = &table["rows"][0];
    assert_eq!(
        row["cells"].as_array().map(|cells| cells[..3].to_vec()),
        Some(vec![json!("a"), json!("soup"), json!("1")])
    );
    assert!(row["cells"][3].as_str().expect("an age").ends_with('s'));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"], created["metadata"]);

    let whole = client.get_as(&format!("{POTS}?includeObject=Object"), TABLE).await.expect(200);
    assert_eq!(whole["rows"][0]["object"], created);
    let none = client.get_as(&format!("{POTS}/a?includeObject=None"), TABLE).await.expect(200);
    assert!(none["rows"][0]["object"].is_null());
    assert_eq!(none["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    client.get_as(&format!("{POTS}?includeObject=All"), TABLE).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn metadata_alone_is_served_to_clients_that_ask_for_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let list = client.get_as(POTS, METADATA).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]});
    assert_eq!(list["items"], json!([expected]));
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(client.get_as(&format!("{POTS}/a"), accept).await.expect(200), expected);
}

#[tokio::test]
async fn tables_and_metadata_are_served_in_v1beta1_too() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let beta = json!("meta.k8s.io/v1beta1");
    let table = client.get_as(POTS, "application/json;as=Table;v=v1beta1;g=meta.k8s.io").await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &beta));
    assert_eq!(table["rows"][0]["object"]["apiVersion"], beta);
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";
    let list = client.get_as(POTS, accept).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &beta));
    assert_eq!(list["items"][0]["apiVersion"], beta);
}

#[tokio::test]
async fn an_event_is_rendered_once_for_all_the_watches_of_a_table() {
    const WATCHES: usize = 30;
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(client.watch_as(&format!("{POTS}?watch=true"), TABLE).await);
    }
    let created = client.create_pot("a", json!({"dish": COUNTED})).await;
    let changed = client.merge(&format!("{POTS}/a"), &json!({"spec": {"servings": 3}})).await.expect(200);
    for watch in &mut watches {
        let (first, second) = (watch.next().await.expect("an event"), watch.next().await.expect("an event"));
        assert_eq!((&first["type"], &second["type"]), (&json!("ADDED"), &json!("MODIFIED")));
        assert_eq!(first["object"]["columnDefinitions"].as_array().map(Vec::len), Some(4));
        assert!(second["object"]["columnDefinitions"].is_null(), "sent before");
        for (event, object) in [(first, &created), (second, &changed)] {
            assert_eq!(event["object"]["rows"][0]["cells"][1], COUNTED);
            assert_eq!(event["object"]["rows"][0]["object"]["metadata"], object["metadata"]);
        }
    }
    // The age is in seconds, so a slow machine renders it a few times more.
    let rendered = COUNTED_CELLS.load(Ordering::Relaxed);
    assert!((2..WATCHES).contains(&rendered), "rendered {rendered} times for {WATCHES} watches");
}

#[tokio::test]
async fn replies_are_yaml_or_indented_for_clients_that_ask_for_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let one = format!("{POTS}/a");
    let yaml = client.get_as(&one, "application/yaml").await;
    assert_eq!((yaml.code, yaml.header("content-type")), (200, "application/yaml"));
    assert!(yaml.text().starts_with("apiVersion: kitchen.dev/v1\nkind: Pot\nmetadata:\n"), "{}", yaml.text());
    let resources = client.get_as("/apis/kitchen.dev/v1", "application/yaml").await;
    assert!(resources.text().contains("kind: APIResourceList\n"), "{}", resources.text());
    let failure = client.get_as(&format!("{POTS}/none"), "application/yaml").await;
    assert_eq!((failure.code, failure.header("content-type")), (404, "application/yaml"));
    assert!(failure.text().contains("reason: NotFound\n"), "{}", failure.text());

    let pretty = client.get(&format!("{one}?pretty=true")).await;
    assert_eq!(pretty.json(), client.get(&one).await.json());
    assert!(pretty.text().starts_with("{\n  \"apiVersion\": "), "{}", pretty.text());
    let curl = client.send("GET", &one, &[("user-agent", "curl/8.5.0")], bytes::Bytes::new()).await;
    assert_eq!(curl.text(), pretty.text());
    let kubectl = client.send("GET", &one, &[("user-agent", "kubectl/v1.37.1")], bytes::Bytes::new()).await;
    assert!(!kubectl.text().contains('\n'), "{}", kubectl.text());
}

#[tokio::test]
async fn a_watch_as_table_names_its_columns_once() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.create_pot("b", json!({"dish": "stew"})).await;
    let mut watch = client.watch_as(&format!("{POTS}?watch=true&resourceVersion=0"), TABLE).await;
    let first = watch.next().await.expect("an event");
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["columnDefinitions"].as_array().map(Vec::len), Some(4));
    assert_eq!(first["object"]["rows"][0]["cells"][1], "soup");
    let second = watch.next().await.expect("an event");
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["cells"][1], "stew");
}

#[tokio::test]
async fn a_media_type_that_is_not_served_is_not_acceptable() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let watch = client.get_as(&format!("{POTS}?watch=true"), "application/yaml").await;
    assert_eq!(watch.code, 406, "{}", watch.text());
    for accept in ["text/html", "application/cbor"] {
        client.get_as(POTS, accept).await.refused(406, "NotAcceptable");
        client.get_as(&format!("{POTS}?watch=true"), accept).await.refused(406, "NotAcceptable");
    }
}
