use bytes::Bytes;
use machinery_server::NamespaceState;
use serde_json::json;

use crate::support::{Kitchen, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

#[tokio::test]
async fn a_new_object_gets_what_the_server_owns_whatever_the_caller_gave() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut given = pot("a", json!({"dish": "soup"}));
    given["metadata"]["uid"] = json!("mine");
    given["metadata"]["generation"] = json!(7);
    given["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    given["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    given["metadata"]["selfLink"] = json!("/me");
    given["status"] = json!({"done": true});
    let created = client.post(POTS, &given).await.expect(201);

    let metadata = &created["metadata"];
    assert_eq!(metadata["namespace"], "n");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["uid"].as_str().expect("a UID").len(), 36);
    assert!(metadata["creationTimestamp"].as_str().expect("a time") > "2020");
    for absent in ["deletionTimestamp", "selfLink"] {
        assert!(metadata.get(absent).is_none(), "{absent}: {metadata}");
    }
    assert!(metadata["resourceVersion"].as_str().expect("a version").parse::<u64>().expect("a number") > 0);
    assert!(created.get("status").is_none(), "cleared by the strategy");
    assert_eq!(created["spec"]["servings"], 2, "defaulted");
    assert_eq!(created["spec"]["owner"], "cook", "set at admission");
    assert_eq!(client.get(&format!("{POTS}/a")).await.expect(200), created);
}

#[tokio::test]
async fn generated_names_start_with_the_prefix() {
    let kitchen = Kitchen::open().await;
    let body = json!({"metadata": {"generateName": "soup-"}, "spec": {"dish": "soup"}});
    let one = kitchen.client().post(POTS, &body).await.expect(201);
    let other = kitchen.client().post(POTS, &body).await.expect(201);
    let name = one["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("soup-") && name.len() == 10, "{name}");
    assert_ne!(one["metadata"]["name"], other["metadata"]["name"]);
}

#[tokio::test]
async fn a_generated_name_that_is_taken_is_generated_again_a_few_times() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let body = json!({"metadata": {"generateName": "soup-"}, "spec": {"dish": "soup"}});
    kitchen.store.take_names(7);
    let created = client.post(POTS, &body).await.expect(201);
    let list = client.get(POTS).await.expect(200);
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), 8, "seven of another caller");
    let same = items.iter().filter(|item| item["metadata"]["name"] == created["metadata"]["name"]);
    assert_eq!(same.count(), 1);

    kitchen.store.take_names(8);
    let answer = client.post(POTS, &body).await;
    answer.refused(409, "AlreadyExists");
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn a_second_create_of_the_same_name_is_refused() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let status = client.post(POTS, &pot("a", json!({"dish": "stew"}))).await.refused(409, "AlreadyExists");
    assert_eq!(status["message"], "pots.kitchen.dev \"a\" already exists");
    assert_eq!(status["details"], json!({"name": "a", "group": "kitchen.dev", "kind": "pots"}));
}

#[tokio::test]
async fn every_wrong_field_is_named_at_once() {
    let kitchen = Kitchen::open().await;
    let mut given = pot("Not_A_Name", json!({"dish": "", "servings": 0}));
    given["metadata"]["labels"] = json!({"a b": "c"});
    let status = kitchen.client().post(POTS, &given).await.refused(422, "Invalid");
    let causes = status["details"]["causes"].as_array().expect("causes");
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    assert_eq!(fields, ["metadata.name", "metadata.labels", "spec.dish", "spec.servings"]);
    assert_eq!(status["details"]["kind"], "Pot");
    let message = status["message"].as_str().expect("a message");
    assert!(message.starts_with("Pot.kitchen.dev \"Not_A_Name\" is invalid: ["), "{message}");
}

#[tokio::test]
async fn unknown_and_repeated_fields_are_refused_warned_of_or_dropped_as_asked() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let body = |name: &str| {
        Bytes::from(format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"dish":"x","dish":"soup","spice":"hot"}}}}"#
        ))
    };
    let json_type = [("content-type", "application/json")];
    let strict = client.send("POST", &format!("{POTS}?fieldValidation=Strict"), &json_type, body("a")).await;
    let message = strict.refused(400, "BadRequest")["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("strict decoding error: "), "{message}");
    assert!(message.contains("unknown field \"spec.spice\""), "{message}");
    assert!(message.contains("duplicate field \"spec.dish\""), "{message}");

    let warned = client.send("POST", POTS, &json_type, body("a")).await;
    assert_eq!(warned.expect(201)["spec"]["dish"], "soup");
    let warnings: Vec<&str> =
        warned.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
    assert!(warnings.contains(&r#"299 - "unknown field \"spec.spice\"""#), "{warnings:?}");

    let ignored = client.send("POST", &format!("{POTS}?fieldValidation=Ignore"), &json_type, body("b")).await;
    assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
}

#[tokio::test]
async fn a_strategys_warnings_reach_the_caller() {
    let kitchen = Kitchen::open().await;
    let answer = kitchen.client().post(POTS, &pot("a", json!({"dish": "fugu"}))).await;
    assert_eq!((answer.code, answer.header("warning")), (201, r#"299 - "fugu is dangerous""#));
}

#[tokio::test]
async fn yaml_is_read_too() {
    let kitchen = Kitchen::open().await;
    let body = Bytes::from_static(b"metadata:\n  name: a\nspec:\n  dish: soup\n");
    let headers = [("content-type", "application/yaml")];
    assert_eq!(kitchen.client().send("POST", POTS, &headers, body).await.expect(201)["spec"]["dish"], "soup");
}

#[tokio::test]
async fn a_dry_run_checks_everything_and_stores_nothing() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let dry = format!("{POTS}?dryRun=All");
    let answer = client.post(&dry, &pot("a", json!({"dish": "soup", "stove": "1"}))).await.expect(201);
    assert_eq!(answer["spec"]["servings"], 2);
    assert!(answer["metadata"].get("resourceVersion").is_none());
    client.get(&format!("{POTS}/a")).await.refused(404, "NotFound");

    client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    client.post(&dry, &pot("a", json!({"dish": "soup"}))).await.refused(409, "AlreadyExists");
    let taken = client.post(&dry, &pot("b", json!({"dish": "soup", "stove": "1"}))).await;
    assert_eq!(taken.refused(409, "AlreadyExists")["details"]["causes"][0]["reason"], "StoveTaken");
    client.post(&dry, &pot("b", json!({"dish": ""}))).await.refused(422, "Invalid");
    client
        .post(&format!("{POTS}?dryRun=Maybe"), &pot("b", json!({"dish": "soup"})))
        .await
        .refused(422, "Invalid");
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_absent_or_terminating() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    kitchen.namespaces.set("none", NamespaceState::Absent);
    kitchen.namespaces.set("going", NamespaceState::Terminating);
    let body = pot("a", json!({"dish": "soup"}));
    let path = |namespace: &str| format!("/apis/kitchen.dev/v1/namespaces/{namespace}/pots");
    let status = client.post(&path("none"), &body).await.refused(404, "NotFound");
    assert_eq!(status["message"], "namespaces \"none\" not found");
    assert_eq!(status["details"], json!({"name": "none", "kind": "namespaces"}));
    let status = client.post(&path("going"), &body).await.refused(403, "Forbidden");
    let cause = &status["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!("NamespaceTerminating"), &json!("metadata.namespace"))
    );
}

#[tokio::test]
async fn a_cluster_scoped_object_needs_no_namespace() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created =
        client.post("/apis/kitchen.dev/v1/stoves", &json!({"metadata": {"name": "big"}})).await.expect(201);
    assert!(created["metadata"].get("namespace").is_none());
    assert_eq!(client.get("/apis/kitchen.dev/v1/stoves/big").await.expect(200), created);
    let list = client.get("/apis/kitchen.dev/v1/stoves?fieldSelector=metadata.name%3Dbig").await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    client.get("/apis/kitchen.dev/v1/namespaces/n/stoves/big").await.refused(404, "NotFound");
}
