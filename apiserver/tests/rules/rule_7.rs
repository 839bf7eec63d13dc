//! Rule 7: the controller's writes to status cannot change answers, policy or recorded requesters.

use serde_json::{Value, json};

use crate::harness::{Change, Server, responder};

/// A status write keeps the fields of others.
///
/// # Attack
///
/// - Attacker: a controller that was taken over
/// - Act: writes answers, policy and requesters into the status
/// - Promise: 7
#[tokio::test]
async fn rule_7_what_the_server_and_the_responders_own_is_kept() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    server.begin("e", &[responder("self", 10_000, "Active")]).await;
    server
        .target()
        .respond("e", json!({"answer": "Delay", "delaySeconds": 600, "message": "busy"}))
        .await
        .ok();
    let before = server.user("jane").get("evacuations/e").await.ok()["status"].clone();

    let changes: [(&str, Change); 7] = [
        ("an answer", |status| {
            status["responders"][0]["answer"] = json!("Accept");
        }),
        ("an answer's time", |status| {
            status["responders"][0]["answerTime"] = json!("2020-01-01T00:00:00Z");
        }),
        ("a delay", |status| {
            status["responders"][0]["delayUntil"] = json!("2020-01-01T00:00:00Z");
        }),
        ("a policy", |status| {
            status["policy"] = json!({"onRefusal": "Override"});
        }),
        ("no policy", |status| status["policy"] = Value::Null),
        ("a requester", |status| {
            status["requesters"][0]["user"] = json!("mallory");
        }),
        ("no requesters", |status| status["requesters"] = json!([])),
    ];
    for (what, change) in changes {
        let reply = server.controller().edit_status("e", change).await;
        if reply.code < 300 {
            for field in ["requesters", "policy", "responders"] {
                assert_eq!(reply.body["status"][field], before[field], "{what}");
            }
        } else {
            assert_eq!(reply.code, 422, "{what}: {reply:#?}");
        }
    }
    let after = server.user("jane").get("evacuations/e").await.ok()["status"].clone();
    assert_eq!(after, before);
}

#[tokio::test]
async fn rule_7_a_status_write_changes_nothing_but_the_status() {
    let server = Server::start().await;
    let created = server.evacuation("e", json!({})).await;
    let mut object = created.clone();
    object["spec"]["requesters"] = json!([]);
    object["metadata"]["labels"] = json!({"a": "b"});
    object["metadata"]["finalizers"] = json!(["a.example.com/b"]);
    object["status"]["observedGeneration"] = json!(1);
    let written = server.controller().update_status(&object).await.ok();
    assert_eq!(written["spec"], created["spec"]);
    assert_eq!(written["metadata"].get("labels"), None);
    assert_eq!(written["metadata"].get("finalizers"), None);
    assert_eq!(written["status"]["observedGeneration"], 1);
}

#[tokio::test]
async fn rule_7_an_update_changes_nothing_of_the_status() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    let begun = server.begin("e", &[responder("self", 10_000, "Active")]).await;
    let change = |object: &mut Value| {
        object["status"] = json!({"conditions": []});
        object["metadata"]["labels"] = json!({"a": "b"});
    };
    let updated = server.user("jane").edit("e", change).await.ok();
    assert_eq!(updated["status"], begun["status"]);
    assert_eq!(updated["metadata"]["labels"], json!({"a": "b"}));
}
