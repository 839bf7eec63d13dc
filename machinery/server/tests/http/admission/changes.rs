//! Changes that plugins make.

use serde_json::json;

use super::{
    A, POTS,
    guard::{Call, Guard, guarded},
};
use crate::support::pot;

#[tokio::test]
async fn plugins_see_the_scale_and_change_the_number_of_replicas() {
    let guard = Guard::changing(|object| {
        if object["kind"] == "Scale" {
            let replicas = object["spec"]["replicas"].as_i64().unwrap_or_default();
            object["spec"]["replicas"] = json!(replicas + 1);
            object["metadata"]["managedFields"] = json!([{"operation": "Nonsense"}]);
        }
    });
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    guard.calls();
    let answer = client.merge(&format!("{A}/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(answer.expect(200)["spec"]["replicas"], 6);
    assert!(answer.header("warning").contains("managedFields was in an invalid state"), "{answer:?}");
    let [mutated, validated] = <[Call; 2]>::try_from(guard.calls()).expect("two calls");
    assert_eq!((mutated.step, mutated.resource.as_str()), ("mutate", "pots/scale"));
    assert_eq!(validated.object["kind"], "Scale");
    assert_eq!(
        (&validated.object["spec"]["replicas"], &validated.old["spec"]["replicas"]),
        (&json!(6), &json!(2))
    );
    assert_eq!(client.get(A).await.expect(200)["spec"]["servings"], 6);
}

#[tokio::test]
async fn a_plugin_cannot_change_what_the_server_and_the_strategy_protect() {
    let guard = Guard::changing(|pot| {
        pot["metadata"]["uid"] = json!("stolen");
        pot["metadata"]["name"] = json!("other");
        pot["metadata"]["namespace"] = json!("elsewhere");
        pot["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        pot["metadata"]["generation"] = json!(70);
        pot["metadata"]["labels"] = json!({"seen": "yes"});
        pot["metadata"]["annotations"] = json!({"seen": "yes"});
        pot["status"] = json!({"stirred": 99});
        pot["spec"]["owner"] = json!("mallory");
        pot["unknown"] = json!(1);
    });
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let meta = &created["metadata"];
    assert_ne!(meta["uid"], "stolen");
    assert_eq!(
        (&meta["name"], &meta["namespace"], &meta["generation"]),
        (&json!("a"), &json!("n"), &json!(1))
    );
    assert_ne!(meta["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!((&meta["labels"]["seen"], &meta["annotations"]["seen"]), (&json!("yes"), &json!("yes")));
    assert!(created.get("status").is_none() && created.get("unknown").is_none(), "{created}");
    let changed = client.merge(A, &json!({"spec": {"servings": 7}})).await.expect(200);
    assert!(changed.get("status").is_none(), "{changed}");
    let stirred = client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    assert_eq!(stirred["status"]["stirred"], 99, "the status is the plugin's to change here");
    assert_eq!(stirred["spec"]["servings"], 7);
}

#[tokio::test]
async fn nobody_owns_what_a_plugin_changes_and_a_broken_record_is_put_back() {
    let guard = Guard::changing(|pot| {
        pot["metadata"]["labels"] = json!({"seen": "yes"});
        pot["metadata"]["managedFields"][0]["operation"] = json!("Nonsense");
    });
    let kitchen = guarded(&guard).await;
    let created = kitchen.client().post(POTS, &pot("a", json!({"dish": "soup"}))).await;
    assert!(created.header("warning").contains("managedFields was in an invalid state"), "{created:?}");
    let created = created.expect(201);
    assert_eq!(created["metadata"]["labels"]["seen"], "yes");
    let entries = created["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["operation"], "Update");
    assert!(entries[0]["fieldsV1"].get("f:metadata").is_none(), "{}", entries[0]);
}
