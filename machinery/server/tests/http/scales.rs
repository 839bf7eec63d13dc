use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{Answer, Client, KettleServer, KettleStrategy, Kitchen, embedded, pot, revision};

const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
const SCALE: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a/scale";

/// A scale of `a` with that number of replicas.
fn scale(replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas},
    })
}

/// Applies a scale as that manager.
async fn apply(client: &Client, manager: &str, more: &str, scale: &Value) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{SCALE}?fieldManager={manager}{more}");
    client.send("PATCH", &path, &headers, scale.to_string().into()).await
}

/// Managers of the servings of a pot, with the operations and subresources by which they own them.
fn owners(pot: &Value) -> Vec<String> {
    let entries = pot["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owns = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:servings").is_some();
    let text = |value: &Value| value.as_str().unwrap_or("main").to_owned();
    let line = |entry: &Value| {
        format!("{} {} {}", text(&entry["manager"]), text(&entry["operation"]), text(&entry["subresource"]))
    };
    entries.iter().filter(owns).map(line).collect()
}

#[tokio::test]
async fn a_scale_shows_the_numbers_of_its_object_and_changes_the_desired_one() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    client.merge(&format!("{A}/status"), &json!({"status": {"stirred": 7}})).await.expect(200);
    let shown = client.get(SCALE).await.expect(200);
    assert_eq!((&shown["apiVersion"], &shown["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    assert_eq!((&shown["spec"], &shown["status"]), (&json!({"replicas": 2}), &json!({"replicas": 7})));
    for field in ["uid", "creationTimestamp", "name", "namespace"] {
        assert_eq!(shown["metadata"][field], created["metadata"][field], "{field}");
    }
    assert_eq!(shown["metadata"]["labels"], Value::Null);

    let replaced = client.put(SCALE, &scale(3)).await.expect(200);
    assert!(revision(&replaced) > revision(&shown));
    let merged = client.merge(SCALE, &json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(merged["spec"]["replicas"], 4);
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
    client.json_patch(SCALE, &operations).await.expect(200);
    let last = apply(&client, "chef", "&force=true", &scale(6)).await.expect(200);
    let pot = client.get(A).await.expect(200);
    assert_eq!((&pot["spec"]["servings"], &pot["status"]["stirred"]), (&json!(6), &json!(7)));
    assert_eq!((pot["metadata"]["generation"].as_i64(), revision(&pot)), (Some(5), revision(&last)));
}

#[tokio::test]
async fn a_write_of_the_scale_follows_the_rules_for_updates_of_the_object() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let status = client.put(SCALE, &scale(0)).await.refused(422, "Invalid");
    assert_eq!(status["details"]["kind"], "Pot", "{status}");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.servings", "{status}");
    let status = client.merge(SCALE, &json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
    assert!(
        status["message"].as_str().expect("text").contains("should be a non-negative integer"),
        "{status}"
    );
    assert_eq!(client.get(A).await.expect(200)["spec"]["servings"], 2);
    let tried = client.put(&format!("{SCALE}?dryRun=All"), &scale(8)).await.expect(200);
    assert_eq!(tried["spec"]["replicas"], 8);
    assert_eq!(client.get(A).await.expect(200)["spec"]["servings"], 2);
    let status = client
        .merge(&format!("{A}/status"), &json!({"status": {"stirred": -1}}))
        .await
        .refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "status.stirred", "{status}");
}

#[tokio::test]
async fn a_scale_of_another_object_or_version_or_kind_is_refused() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.put(SCALE, &scale(3)).await.refused(404, "NotFound");
    let status = apply(&client, "chef", "", &scale(3)).await.refused(404, "NotFound");
    assert_eq!(status["message"], "pots.kitchen.dev \"a\" not found", "an apply of a scale creates nothing");
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    client.put(SCALE, &scale(3)).await.expect(200);
    let with = |field: &str, value: &Value| {
        let mut scale = scale(4);
        scale["metadata"][field] = value.clone();
        scale
    };
    let old = with("resourceVersion", &created["metadata"]["resourceVersion"]);
    let status = client.put(SCALE, &old).await.refused(409, "Conflict");
    assert!(
        status["message"].as_str().expect("text").contains("pots.kitchen.dev \"a\": the object has been")
    );
    client.put(SCALE, &with("uid", &json!("another"))).await.refused(409, "Conflict");
    client.put(SCALE, &with("uid", &created["metadata"]["uid"])).await.expect(200);
    client.put(SCALE, &with("name", &json!("b"))).await.refused(400, "BadRequest");
    client.put(SCALE, &with("namespace", &json!("other"))).await.refused(400, "BadRequest");
    client.put(SCALE, &pot("a", json!({"dish": "soup"}))).await.refused(400, "BadRequest");
    let mut words = scale(4);
    words["spec"]["replicas"] = json!("four");
    client.put(SCALE, &words).await.refused(400, "BadRequest");
    client.post(SCALE, &scale(4)).await.refused(405, "MethodNotAllowed");
    client.delete(SCALE).await.refused(405, "MethodNotAllowed");
    client.get("/apis/kitchen.dev/v1/stoves/s/scale").await.refused(404, "NotFound");
    assert_eq!(client.get(A).await.expect(200)["spec"]["servings"], 4);
}

#[tokio::test]
async fn unknown_fields_of_a_scale_are_warned_of_and_other_fields_stay() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let change = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 3, "lid": true}, "status": {"replicas": 9}});
    let answer = client.merge(SCALE, &change).await;
    assert_eq!(answer.expect(200)["status"]["replicas"], 0);
    assert_eq!(answer.header("warning"), "299 - \"unknown field \\\"spec.lid\\\"\"");
    assert_eq!(client.get(A).await.expect(200)["metadata"]["labels"], Value::Null);
    let strict = client.merge(&format!("{SCALE}?fieldValidation=Strict"), &change).await;
    strict.refused(422, "Invalid");
}

#[tokio::test]
async fn a_caller_that_scales_owns_the_replicas_and_the_others_keep_the_rest() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let soup = pot("a", json!({"dish": "soup", "servings": 2}));
    let created = client.post("/apis/kitchen.dev/v1/namespaces/n/pots?fieldManager=cook", &soup).await;
    assert_eq!(owners(&created.expect(201)), ["cook Update main"]);
    client.put(&format!("{SCALE}?fieldManager=waiter"), &scale(2)).await.expect(200);
    assert_eq!(owners(&client.get(A).await.expect(200)), ["cook Update main"], "nothing has changed");
    client.put(&format!("{SCALE}?fieldManager=waiter"), &scale(3)).await.expect(200);
    let pot = client.get(A).await.expect(200);
    assert_eq!(owners(&pot), ["waiter Update scale"]);
    let entries = pot["metadata"]["managedFields"].as_array().expect("entries");
    let cook = entries.iter().find(|entry| entry["manager"] == "cook").expect("an entry");
    assert_eq!(cook["fieldsV1"], json!({"f:spec": {".": {}, "f:dish": {}}}));
    assert!(entries.iter().all(|entry| entry["apiVersion"] == "kitchen.dev/v1"), "{pot}");
}

#[tokio::test]
async fn an_applied_scale_conflicts_with_its_owner_until_it_is_forced() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.put(&format!("{SCALE}?fieldManager=waiter"), &scale(3)).await.expect(200);
    let status = apply(&client, "chef", "", &scale(4)).await.refused(409, "Conflict");
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.replicas", "{status}");
    apply(&client, "chef", "&force=true", &scale(4)).await.expect(200);
    assert_eq!(owners(&client.get(A).await.expect(200)), ["chef Apply scale"]);
    apply(&client, "chef", "", &scale(5)).await.expect(200);
    let main = json!({"spec": {"servings": 6}});
    client.merge(&format!("{A}?fieldManager=cook"), &main).await.expect(200);
    let pot = client.get(A).await.expect(200);
    assert_eq!((owners(&pot), &pot["spec"]["servings"]), (vec!["cook Update main".to_owned()], &json!(6)));
}

#[tokio::test]
async fn a_scale_is_discovered_described_and_shown_in_tables() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let resources = client.get("/apis/kitchen.dev/v1").await.expect(200);
    let all = resources["resources"].as_array().expect("resources");
    let found = all.iter().find(|resource| resource["name"] == "pots/scale").expect("a scale");
    assert_eq!(
        (&found["group"], &found["version"], &found["kind"], &found["verbs"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"), &json!(["get", "patch", "update"]))
    );
    assert!(!all.iter().any(|resource| resource["name"] == "stoves/scale"));
    let document = client.get("/openapi/v3/apis/kitchen.dev/v1").await.expect(200);
    let path = &document["paths"]["/apis/kitchen.dev/v1/namespaces/{namespace}/pots/{name}/scale"];
    let body = &path["put"]["requestBody"]["content"];
    let schema = body.as_object().and_then(|types| types.values().next()).expect("a body");
    assert_eq!(schema["schema"]["$ref"], "#/components/schemas/io.k8s.api.autoscaling.v1.Scale");

    client.create_pot("a", json!({"dish": "soup"})).await;
    let table = client.get_as(SCALE, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], 2);
}

#[tokio::test]
async fn each_version_of_a_kind_has_its_own_path_to_the_replicas() {
    let folder = tempfile::tempdir().expect("a folder");
    let strategy = KettleStrategy { stored: None, serves_v1: true };
    let server = KettleServer::open(embedded(&folder).await, strategy).await;
    let path = |version: &str| format!("/apis/kettles.dev/{version}/namespaces/n/kettles/k");
    let kettle = json!({
        "apiVersion": "kettles.dev/v2", "kind": "Kettle", "metadata": {"name": "k"}, "spec": {"litres": 2},
    });
    server.client.post("/apis/kettles.dev/v2/namespaces/n/kettles", &kettle).await.expect(201);
    let client = &server.client;
    let replicas = |scale: &Value| scale["spec"]["replicas"].as_i64();
    let shown = client.get(&format!("{}/scale", path("v1"))).await.expect(200);
    assert_eq!(replicas(&shown), Some(2000));
    let change = json!({"spec": {"replicas": 5000}});
    let scaled = client.merge(&format!("{}/scale", path("v1")), &change).await;
    assert_eq!(replicas(&scaled.expect(200)), Some(5000));
    assert_eq!(replicas(&client.get(&format!("{}/scale", path("v2"))).await.expect(200)), Some(5));
    let entries = client.get(&path("v2")).await.expect(200)["metadata"]["managedFields"].clone();
    let entry = entries.as_array().expect("entries").iter().find(|entry| entry["subresource"] == "scale");
    let entry = entry.expect("an owner");
    assert_eq!(
        (&entry["apiVersion"], &entry["fieldsV1"]),
        (&json!("kettles.dev/v1"), &json!({"f:spec": {"f:millilitres": {}}}))
    );
}

#[tokio::test]
async fn a_body_that_is_larger_than_an_object_may_be_is_no_scale() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let large = Bytes::from(vec![b' '; 3 * 1024 * 1024 + 1]);
    let answer = client.send("PUT", SCALE, &[("content-type", "application/json")], large).await;
    answer.refused(413, "RequestEntityTooLarge");
}
