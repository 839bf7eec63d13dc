//! Rule 3 under strategic merge patches, by which `kubectl apply` writes: an entry without an owner is the
//! caller's.

use serde_json::{Value, json};

use crate::harness::{Server, evacuation, requester};

/// Name of an entry that jane and joe both have.
const SHARED: &str = "test.example.com/shared";
const JANES: &str = "jane.example.com/a";

/// An Evacuation `e` with two entries of jane, and one of joe with the name of one of hers.
async fn of_two(server: &Server) {
    let entries = [requester(SHARED, json!({})), requester(JANES, json!({}))];
    server.user("jane").create(&evacuation("e", "db-0", &entries)).await.ok();
    server.user("joe").strategic_patch("e", entries_of(&json!([{"name": SHARED}]))).await.ok();
}

fn entries_of(entries: &Value) -> Value {
    json!({"spec": {"requesters": entries}})
}

/// Returns owner, name and reason of each entry.
fn summary(object: &Value) -> Vec<[&str; 3]> {
    let entries = object["spec"]["requesters"].as_array().unwrap().iter();
    let texts = ["owner", "name", "reason"];
    entries.map(|entry| texts.map(|field| entry[field].as_str().unwrap_or_default())).collect()
}

#[tokio::test]
async fn rule_3_an_entry_without_an_owner_is_the_one_of_the_caller() {
    let server = Server::start().await;
    of_two(&server).await;
    let patch = entries_of(&json!([{"name": SHARED, "reason": "Joes"}]));
    let written = server.user("joe").strategic_patch("e", patch.clone()).await.ok();
    assert_eq!(summary(&written), [["jane", SHARED, ""], ["jane", JANES, ""], ["joe", SHARED, "Joes"]]);
    let again = server.user("joe").strategic_patch("e", patch).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn rule_3_a_patch_removes_the_entries_of_the_caller_that_it_names_and_needs_no_resource_version() {
    let server = Server::start().await;
    of_two(&server).await;
    let without = json!({"spec": {
        "$setElementOrder/requesters": [{"name": JANES}],
        "requesters": [{"name": SHARED, "$patch": "delete"}],
    }});
    let left = server.user("jane").strategic_patch("e", without).await.ok();
    assert_eq!(summary(&left), [["jane", JANES, ""], ["joe", SHARED, ""]]);
    let last = entries_of(&json!([{"name": SHARED, "$patch": "delete"}]));
    let left = server.user("joe").strategic_patch("e", last).await.ok();
    assert_eq!(summary(&left), [["jane", JANES, ""]]);
}

/// # Attack
///
/// - Attacker: a user who may patch Evacuations
/// - Act: changes or removes the entry of another by a strategic merge patch that names its owner, or that
///   replaces the list
/// - Promise: 3
#[tokio::test]
async fn rule_3_no_patch_changes_or_removes_the_entry_of_another() {
    let server = Server::start().await;
    of_two(&server).await;
    let before = server.user("jane").get("evacuations/e").await.ok();
    for patch in [
        entries_of(&json!([{"name": JANES, "owner": "jane", "reason": "Joes"}])),
        entries_of(&json!([{"name": JANES, "owner": "jane", "$patch": "delete"}])),
        entries_of(&json!([{"name": SHARED}, {"$patch": "replace"}])),
        entries_of(&Value::Null),
        json!({"spec": {"$retainKeys": ["target"]}}),
        json!({"spec": {"$patch": "replace", "target": {"pod": {"name": "db-0"}}, "requesters": [{"name": SHARED}]}}),
    ] {
        server.user("joe").strategic_patch("e", patch.clone()).await.refused(403, "Forbidden").saying("jane");
        assert_eq!(server.user("jane").get("evacuations/e").await.ok(), before, "{patch}");
    }
}

#[tokio::test]
async fn rule_3_a_holder_of_override_removes_nothing_unseen_by_a_patch_that_replaces_the_list() {
    let server = Server::start().await;
    of_two(&server).await;
    server.cluster.grant("root", "override evacuations e");
    let replace = entries_of(&json!([{"name": SHARED, "owner": "jane"}, {"$patch": "replace"}]));
    let refused = server.user("root").strategic_patch("e", replace.clone()).await.refused(409, "Conflict");
    refused.cause("ResourceVersionRequired");
    let current = server.user("root").get("evacuations/e").await.ok();
    let mut seen = replace;
    seen["metadata"] = json!({"resourceVersion": current["metadata"]["resourceVersion"]});
    let left = server.user("root").strategic_patch("e", seen).await.ok();
    assert_eq!(summary(&left), [["jane", SHARED, ""]]);
}
