use bytes::Bytes;
use machinery_server::{NamespaceState, ObjectLimits};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Kitchen, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

/// Applies a configuration as that manager, with more parameters such as `&force=true`.
async fn apply(client: &Client, path: &str, manager: &str, more: &str, configuration: &Value) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{path}?fieldManager={manager}{more}");
    client.send("PATCH", &path, &headers, configuration.to_string().into()).await
}

/// A configuration of the pot `a`.
fn configuration(spec: &Value) -> Value {
    json!({"apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": "a"}, "spec": spec})
}

/// The fields that a manager owns by that operation; null when there are none.
fn owned(object: &Value, manager: &str, operation: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == operation);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[tokio::test]
async fn an_apply_creates_an_object_and_the_same_apply_changes_nothing() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let soup = configuration(&json!({"dish": "soup"}));
    let created = apply(&client, A, "flux", "", &soup).await.expect(201);
    assert_eq!(created["spec"]["servings"], 2, "defaulted");
    assert_eq!(owned(&created, "flux", "Apply"), json!({"f:spec": {"f:dish": {}}}));
    assert_eq!(apply(&client, A, "flux", "", &soup).await.expect(200), created);
    assert_eq!(client.get(A).await.expect(200), created);
}

#[tokio::test]
async fn an_apply_removes_what_its_manager_no_longer_applies_and_leaves_the_rest() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let full =
        json!({"dish": "soup", "stove": "left", "steps": [{"name": "boil", "minutes": 5}, {"name": "stir"}]});
    apply(&client, A, "flux", "", &configuration(&full)).await.expect(201);
    let step = json!({"dish": "soup", "steps": [{"name": "taste"}]});
    let shared = apply(&client, A, "chef", "", &configuration(&step)).await.expect(200);
    assert_eq!(shared["spec"]["steps"].as_array().expect("steps").len(), 3);
    let less = json!({"dish": "soup", "steps": [{"name": "stir", "minutes": 1}]});
    let left = apply(&client, A, "flux", "", &configuration(&less)).await.expect(200);
    assert!(left["spec"].get("stove").is_none(), "{left}");
    assert_eq!(left["spec"]["steps"], json!([{"name": "stir", "minutes": 1}, {"name": "taste"}]));
}

#[tokio::test]
async fn a_conflict_names_every_field_and_its_manager_and_force_takes_the_fields() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    apply(&client, A, "flux", "", &configuration(&json!({"dish": "soup", "servings": 3, "stove": "left"})))
        .await
        .expect(201);
    let other = configuration(&json!({"dish": "soup", "servings": 4, "stove": "right"}));
    let status = apply(&client, A, "chef", "", &other).await.refused(409, "Conflict");
    assert_eq!(
        status["message"],
        "Apply failed with 2 conflicts: conflicts with \"flux\":\n- .spec.servings\n- .spec.stove"
    );
    let cause = json!({
        "reason": "FieldManagerConflict", "message": "conflict with \"flux\"", "field": ".spec.servings",
    });
    assert_eq!(status["details"]["causes"][0], cause);
    let taken = apply(&client, A, "chef", "&force=true", &other).await.expect(200);
    assert_eq!(taken["spec"]["servings"], 4);
    assert_eq!(owned(&taken, "flux", "Apply"), json!({"f:spec": {"f:dish": {}}}));
}

#[tokio::test]
async fn a_manager_owns_what_it_sent_and_nobody_owns_what_the_server_set() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.post(&format!("{POTS}?fieldManager=cook"), &pot("a", json!({"dish": "soup"}))).await;
    let created = created.expect(201);
    assert_eq!(created["spec"]["owner"], "cook", "set at admission");
    assert_eq!(
        owned(&created, "cook", "Update"),
        json!({"f:spec": {".": {}, "f:dish": {}, "f:servings": {}}})
    );
    let headers = [("content-type", "application/merge-patch+json"), ("user-agent", "waiter/v1 (linux)")];
    let change = json!({"spec": {"servings": 5}}).to_string();
    let changed = client.send("PATCH", A, &headers, change.into()).await.expect(200);
    assert_eq!(owned(&changed, "waiter", "Update"), json!({"f:spec": {"f:servings": {}}}));
    assert_eq!(owned(&changed, "cook", "Update"), json!({"f:spec": {".": {}, "f:dish": {}}}));
    let status = json!({"spec": {"servings": 9}, "status": {"stirred": 1}});
    let stirred = client.merge(&format!("{A}/status?fieldManager=spoon"), &status).await.expect(200);
    let entries = stirred["metadata"]["managedFields"].as_array().expect("entries").clone();
    let entry = entries.iter().find(|entry| entry["manager"] == "spoon").expect("an entry");
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {".": {}, "f:done": {}, "f:stirred": {}}}));
}

#[tokio::test]
async fn the_status_is_applied_by_its_subresource_only() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut both = configuration(&json!({"dish": "soup", "servings": 3}));
    both["status"] = json!({"stirred": 4});
    let status_path = format!("{A}/status");
    apply(&client, &status_path, "spoon", "", &both).await.refused(404, "NotFound");
    let created = apply(&client, A, "flux", "", &both).await.expect(201);
    assert!(created.get("status").is_none(), "{created}");
    assert_eq!(owned(&created, "flux", "Apply")["f:status"], Value::Null);
    both["spec"]["servings"] = json!(9);
    let stirred = apply(&client, &status_path, "spoon", "", &both).await.expect(200);
    assert_eq!((&stirred["status"]["stirred"], &stirred["spec"]["servings"]), (&json!(4), &json!(3)));
    assert_eq!(owned(&stirred, "spoon", "Apply"), json!({"f:status": {"f:stirred": {}}}));
}

#[tokio::test]
async fn an_apply_that_creates_needs_the_right_to_create() {
    let kitchen = Kitchen::open().await;
    let guest = kitchen.client_of("patcher");
    let soup = configuration(&json!({"dish": "soup"}));
    let status = apply(&guest, A, "flux", "", &soup).await.refused(403, "Forbidden");
    assert!(
        status["message"].as_str().expect("text").contains("cannot create resource \"pots\""),
        "{status}"
    );
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    apply(&guest, A, "flux", "", &soup).await.expect(200);
    kitchen.namespaces.set("n", NamespaceState::Terminating);
    apply(&kitchen.client(), &format!("{POTS}/b"), "flux", "", &soup).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_applied_says_why() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let soup = || configuration(&json!({"dish": "soup"}));
    let with = |pointer: &str, value: Value| {
        let mut changed = soup();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        changed.pointer_mut(parent).expect("a parent")[name] = value;
        changed
    };
    let headers = [("content-type", "application/apply-patch+yaml")];
    let none = client.send("PATCH", A, &headers, soup().to_string().into()).await.refused(422, "Invalid");
    assert_eq!(none["details"]["causes"][0]["field"], "fieldManager");
    for (changed, reason, code, words) in [
        (with("/metadata/managedFields", json!([{}])), "BadRequest", 400, "managedFields must be nil"),
        (with("/apiVersion", json!("kitchen.dev/v9")), "BadRequest", 400, "kitchen.dev/v9"),
        (with("/metadata/name", json!("b")), "BadRequest", 400, "does not match the name on the URL"),
        (with("/metadata/uid", json!("gone")), "Conflict", 409, "uid mismatch"),
        (with("/spec/spice", json!(1)), "BadRequest", 400, ".spec.spice: field not declared in schema"),
        (with("/spec/tags", json!(["a", "a"])), "BadRequest", 400, "duplicate"),
        (with("/spec/steps", json!([{"minutes": 1}])), "BadRequest", 400, "name"),
        (with("/spec/servings", json!("many")), "BadRequest", 400, ".spec.servings"),
        (with("/spec/servings", json!(0)), "Invalid", 422, "must be positive"),
    ] {
        let status = apply(&client, A, "flux", "", &changed).await.refused(code, reason);
        assert!(status["message"].as_str().expect("text").contains(words), "{words}: {status}");
    }
    let text: Bytes =
        "apiVersion: kitchen.dev/v1\nkind: Pot\nmetadata: {name: a}\nspec: {dish: soup}\nspec: {dish: soup}"
            .into();
    let strict = format!("{A}?fieldManager=flux&fieldValidation=Strict");
    client.send("PATCH", &strict, &headers, text.clone()).await.refused(400, "BadRequest");
    client.send("PATCH", &format!("{A}?fieldManager=flux"), &headers, text).await.expect(201);
    let old = with("/metadata/resourceVersion", json!("1"));
    apply(&client, A, "flux", "", &old).await.refused(409, "Conflict");
}

#[tokio::test]
async fn applies_at_the_same_time_all_count_and_a_dry_run_does_not() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let dry = apply(&client, A, "flux", "&dryRun=All", &configuration(&json!({"dish": "soup"}))).await;
    dry.expect(201);
    client.get(A).await.refused(404, "NotFound");
    let applies = (0..8).map(async |at| {
        let step = configuration(&json!({"dish": "soup", "steps": [{"name": format!("step-{at}")}]}));
        apply(&client, A, &format!("manager-{at}"), "", &step).await
    });
    for answer in futures::future::join_all(applies).await {
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
    }
    let object = client.get(A).await.expect(200);
    assert_eq!(object["spec"]["steps"].as_array().expect("steps").len(), 8, "{object}");
}

#[tokio::test]
async fn ownership_is_reset_by_an_empty_entry_and_kept_by_updates_that_leave_it_out() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    apply(&client, A, "flux", "", &configuration(&json!({"dish": "soup"}))).await.expect(201);
    let mut object = client.get(A).await.expect(200);
    object["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    object["metadata"]["labels"] = json!({"x": "y"});
    let kept = client.put(A, &object).await.expect(200);
    assert_eq!(owned(&kept, "flux", "Apply"), json!({"f:spec": {"f:dish": {}}}));
    let reset = client.merge(A, &json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert!(reset["metadata"].get("managedFields").is_none(), "{reset}");
}

#[tokio::test]
async fn a_large_record_or_configuration_is_left_out_or_refused_before_it_is_compared() {
    let limits = ObjectLimits { object_bytes: 64 * 1024, ..ObjectLimits::NONE };
    let kitchen = Kitchen::with(Setup { limits: Some(limits), ..Setup::default() }).await;
    let client = kitchen.client();
    let entry = |at: usize| {
        json!({
            "manager": format!("m{at}"), "operation": "Apply", "apiVersion": "kitchen.dev/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:z": {}}}},
        })
    };
    let mut object = pot("a", json!({"dish": "soup"}));
    object["metadata"]["managedFields"] = (0..9000).map(entry).collect();
    let created = client.post(&format!("{POTS}?fieldManager=cook"), &object).await.expect(201);
    let entries = created["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1, "that of the writer");
    let mut labels = configuration(&json!({"dish": "soup"}));
    labels["metadata"]["labels"] = (0..20_000).map(|at| (format!("l{at}"), json!("x"))).collect();
    apply(&client, A, "flux", "", &labels).await.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn a_caller_that_applies_under_many_names_fills_the_record_and_keeps_others_from_no_update() {
    let kitchen = Kitchen::open().await;
    let (greedy, cook) = (kitchen.client_of("greedy"), kitchen.client());
    let tags: Vec<String> = (0..2000).map(|at| format!("{at:060}")).collect();
    let large = configuration(&json!({"dish": "soup", "tags": tags}));
    let mut refused = None;
    for at in 0..8 {
        let answer = apply(&greedy, A, &format!("name-{at}"), "", &large).await;
        if answer.code == 413 {
            refused = Some(answer);
            break;
        }
    }
    let status = refused.expect("a limit").refused(413, "RequestEntityTooLarge");
    let message = status["message"].as_str().expect("text");
    assert!(message.contains("metadata.managedFields of pots.kitchen.dev"), "{message}");
    assert!(message.contains("limit is 524288"), "{message}");
    let changed = cook.merge(A, &json!({"spec": {"servings": 7}})).await.expect(200);
    assert_eq!(changed["spec"]["servings"], 7);
    cook.merge(A, &json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    apply(&cook, A, "chef", "&force=true", &large).await.expect(200);
}

#[tokio::test]
async fn applies_of_the_scale_have_the_same_limit_and_other_writes_of_it_pass() {
    let limits = ObjectLimits { object_bytes: 4096, ..ObjectLimits::NONE };
    let kitchen = Kitchen::with(Setup { limits: Some(limits), ..Setup::default() }).await;
    let (greedy, cook) = (kitchen.client_of("greedy"), kitchen.client());
    cook.create_pot("a", json!({"dish": "soup"})).await;
    let path = format!("{A}/scale");
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3},
    });
    let mut accepted = 0;
    let status = loop {
        let manager = format!("{accepted:0100}");
        let answer = apply(&greedy, &path, &manager, "&force=true", &scale).await;
        if answer.code != 200 {
            break answer.refused(413, "RequestEntityTooLarge");
        }
        accepted += 1;
        assert!(accepted < 100, "there is a limit");
    };
    assert!(accepted > 5, "{accepted}");
    assert!(status["message"].as_str().expect("text").contains("limit is 4096"), "{status}");
    let scaled = cook.merge(&path, &json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    apply(&cook, &path, "chef", "&force=true", &scale).await.expect(200);
}
