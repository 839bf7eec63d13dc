use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Kitchen, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut old = client.create_pot("a", json!({"dish": "soup"})).await;
    let mut new = old.clone();
    new["spec"]["servings"] = json!(4);
    let updated = client.put(A, &new).await.expect(200);
    assert!(revision(&updated) > revision(&old));

    old["spec"]["servings"] = json!(6);
    let status = client.put(A, &old).await.refused(409, "Conflict");
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on pots.kitchen.dev \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    old["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    assert_eq!(client.put(A, &old).await.expect(200)["spec"]["servings"], 6, "unconditionally");
    old["metadata"]["resourceVersion"] = json!("abc");
    client.put(A, &old).await.refused(422, "Invalid");
}

#[tokio::test]
async fn an_update_meant_for_another_object_of_that_name_is_a_conflict() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut object = client.create_pot("a", json!({"dish": "soup"})).await;
    object["metadata"]["uid"] = json!("another");
    let status = client.put(A, &object).await.refused(409, "Conflict");
    assert!(status["message"].as_str().expect("text").contains("UID in precondition: another"), "{status}");
}

#[tokio::test]
async fn an_update_creates_nothing() {
    let kitchen = Kitchen::open().await;
    let status = kitchen.client().put(A, &pot("a", json!({"dish": "soup"}))).await.refused(404, "NotFound");
    assert_eq!(status["message"], "pots.kitchen.dev \"a\" not found");
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_content_only() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().expect("a generation");
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    assert_eq!(generation(&created), 1);
    let labelled =
        client.merge(A, &json!({"metadata": {"labels": {"x": "y"}, "generation": 9}})).await.expect(200);
    assert_eq!(generation(&labelled), 1);
    let status = client.merge(&format!("{A}/status"), &json!({"status": {"stirred": 1}})).await.expect(200);
    assert_eq!(generation(&status), 1);
    let changed = client.merge(A, &json!({"spec": {"servings": 3}})).await.expect(200);
    assert_eq!(generation(&changed), 2);
}

#[tokio::test]
async fn a_change_of_nothing_writes_nothing() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    assert_eq!(client.put(A, &created).await.expect(200), created);
    let same = client.merge(A, &json!({"spec": {"servings": 2}})).await.expect(200);
    assert_eq!(revision(&same), revision(&created));
    let dry = client.merge(&format!("{A}?dryRun=All"), &json!({"spec": {"servings": 5}})).await.expect(200);
    assert_eq!(dry["spec"]["servings"], 5);
    assert_eq!(client.get(A).await.expect(200), created);
}

#[tokio::test]
async fn the_status_changes_by_its_subresource_and_nothing_else_does() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let mut object = created.clone();
    object["status"] = json!({"done": true, "stirred": 2});
    object["spec"]["servings"] = json!(9);
    object["metadata"]["labels"] = json!({"x": "y"});
    let main = client.put(A, &object).await.expect(200);
    assert!(main.get("status").is_none(), "{main}");
    assert_eq!(main["spec"]["servings"], 9);

    object["metadata"] = json!({"name": "a", "labels": {"z": "z"}});
    object["spec"]["servings"] = json!(1);
    let status = client.put(&format!("{A}/status"), &object).await.expect(200);
    assert_eq!(status["status"], json!({"done": true, "stirred": 2}));
    assert_eq!(status["spec"]["servings"], 9);
    assert_eq!(status["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(client.get(&format!("{A}/status")).await.expect(200), status);
    object["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    client.put(&format!("{A}/status"), &object).await.refused(409, "Conflict");
}

#[tokio::test]
async fn patches_are_applied_or_say_why_not() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup", "servings": 3})).await;
    let merged = client.merge(A, &json!({"spec": {"servings": null}})).await.expect(200);
    assert_eq!(merged["spec"]["servings"], 2, "removed, then defaulted");
    let replace = json!([
        {"op": "test", "path": "/spec/servings", "value": 2},
        {"op": "replace", "path": "/spec/servings", "value": 7},
    ]);
    assert_eq!(client.json_patch(A, &replace).await.expect(200)["spec"]["servings"], 7);
    client.json_patch(A, &replace).await.refused(422, "Invalid");
    client.json_patch(A, &json!([{"op": "remove", "path": "/spec/none"}])).await.refused(422, "Invalid");
    client.json_patch(A, &json!({"op": "no list"})).await.refused(400, "BadRequest");
    client.merge(A, &json!(["no object"])).await.refused(400, "BadRequest");
    client.merge(A, &json!({"spec": {"servings": "many"}})).await.refused(422, "Invalid");
    client.merge(A, &json!({"spec": {"dish": "stew"}})).await.refused(422, "Invalid");
    client.merge(A, &json!({"metadata": {"name": "b"}})).await.refused(400, "BadRequest");
    client.merge(A, &json!({"kind": "Pan"})).await.refused(400, "BadRequest");
    client.merge(A, &json!({"metadata": {"resourceVersion": "1"}})).await.refused(409, "Conflict");
    let current = client.get(A).await.expect(200)["metadata"].clone();
    let mut older = current.clone();
    older["resourceVersion"] = json!("1");
    let whole = |metadata: &Value| json!([{"op": "replace", "path": "/metadata", "value": metadata}]);
    client.json_patch(A, &whole(&older)).await.refused(409, "Conflict");
    client.json_patch(A, &whole(&current)).await.expect(200);
    let strict = client.merge(&format!("{A}?fieldValidation=Strict"), &json!({"spec": {"spice": 1}})).await;
    strict.refused(422, "Invalid");
    client.merge(&format!("{POTS}/none"), &json!({})).await.refused(404, "NotFound");
    for unsupported in ["application/apply-patch+cbor", "text/plain"] {
        let answer = client.send("PATCH", A, &[("content-type", unsupported)], "{}".into()).await;
        answer.refused(415, "UnsupportedMediaType");
    }
}

#[tokio::test]
async fn a_kind_with_merge_keys_takes_strategic_merge_patches() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created =
        client.create_pot("a", json!({"dish": "soup", "steps": [{"name": "cut"}, {"name": "boil"}]})).await;
    let steps = |steps: Value| json!({"spec": {"steps": steps}});
    let changed = client.strategic(A, &steps(json!([{"name": "boil", "minutes": 9}, {"name": "eat"}]))).await;
    let expected = json!([{"name": "cut"}, {"name": "boil", "minutes": 9}, {"name": "eat"}]);
    assert_eq!(changed.expect(200)["spec"]["steps"], expected);
    let same = client.strategic(A, &steps(json!([{"name": "boil", "minutes": 9}]))).await.expect(200);
    assert_eq!(revision(&same), revision(&client.get(A).await.expect(200)), "nothing is written");
    let status = client.strategic(&format!("{A}/status"), &json!({"status": {"stirred": 1}})).await;
    assert_eq!(status.expect(200)["status"]["stirred"], 1);

    client.strategic(A, &steps(json!([{"minutes": 9}]))).await.refused(422, "Invalid");
    client.strategic(A, &json!({"$patch": "merge"})).await.refused(400, "BadRequest");
    client.strategic(A, &json!([])).await.refused(400, "BadRequest");
    client.strategic(&format!("{POTS}/none"), &json!([])).await.refused(400, "BadRequest");
    client.strategic(&format!("{POTS}/none"), &json!({})).await.refused(404, "NotFound");
    let many: Value = (0..1001).map(|n| json!({"name": n.to_string()})).collect();
    client.strategic(A, &steps(many)).await.refused(413, "RequestEntityTooLarge");
    let old = json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}});
    client.strategic(A, &old).await.refused(409, "Conflict");

    let types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let scale =
        client.strategic(&format!("{A}/scale"), &json!({})).await.refused(415, "UnsupportedMediaType");
    assert!(scale["message"].as_str().unwrap().ends_with(types), "{scale}");
}

#[tokio::test]
async fn immutable_metadata_is_kept_or_its_change_is_refused() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let changed = client
        .merge(
            A,
            &json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "uid": null, "generation": 8}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["metadata"], created["metadata"]);
    let status = client.merge(A, &json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})).await;
    let status = status.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.deletionTimestamp");
}

#[tokio::test]
async fn fifty_writers_of_one_object_lose_no_change() {
    let kitchen = Kitchen::open().await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let writes = (0..50).map(|at| {
        let client = kitchen.client();
        async move {
            let patch = json!({"metadata": {"annotations": {format!("w{at}"): "x"}}});
            client.merge(A, &patch).await.expect(200);
        }
    });
    join_all(writes).await;
    let object = kitchen.client().get(A).await.expect(200);
    assert_eq!(object["metadata"]["annotations"].as_object().map(serde_json::Map::len), Some(50));
}
