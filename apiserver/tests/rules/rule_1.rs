//! Rule 1: at most one active Evacuation per pod UID. One that has ended is history and never blocks a new
//! one.

use futures::future::join_all;
use serde_json::json;

use crate::{
    harness::{Server, evacuation, requester, responder},
    reply::Refusal,
};

fn by_jane(name: &str) -> serde_json::Value {
    evacuation(name, "db-0", &[requester("jane.example.com/a", json!({}))])
}

fn names_active(refusal: &Refusal, name: &str) {
    assert_eq!(refusal.cause("ActiveEvacuationExists")["message"], name);
}

#[tokio::test]
async fn rule_1_a_second_evacuation_of_the_same_pod_is_a_conflict_that_names_the_active_one() {
    let server = Server::start().await;
    server.user("jane").create(&by_jane("first")).await.ok();
    let refusal = server.user("joe").create(&by_jane("second")).await.refused(409, "Conflict");
    names_active(&refusal, "first");
    refusal.saying("\"db-0\"").saying("\"first\"").because("ActiveEvacuationExists", "spec.target.pod.uid");
}

/// One transaction with an index key decides.
///
/// # Attack
///
/// - Attacker: fifty requesters
/// - Act: create an Evacuation of one pod at once
/// - Promise: 1
#[tokio::test]
async fn rule_1_of_fifty_evacuations_at_once_one_is_created() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let objects: Vec<_> = (0..50).map(|index| by_jane(&format!("e-{index}"))).collect();
    let replies = join_all(objects.iter().map(|object| jane.create(object))).await;
    let (created, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.code == 201);
    assert_eq!(created.len(), 1);
    let active = created[0].body["metadata"]["name"].as_str().unwrap();
    for reply in refused {
        names_active(&reply.refused(409, "Conflict"), active);
    }
}

#[tokio::test]
async fn rule_1_generated_names_change_nothing() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let mut object = by_jane("");
    object["metadata"] = json!({"generateName": "db-0-"});
    let first = jane.create(&object).await.ok();
    let refusal = jane.create(&object).await.refused(409, "Conflict");
    names_active(&refusal, first["metadata"]["name"].as_str().unwrap());
}

#[tokio::test]
async fn rule_1_a_pod_that_replaced_another_of_its_name_has_an_evacuation_of_its_own() {
    let server = Server::start().await;
    server.user("jane").create(&by_jane("first")).await.ok();
    server.cluster.add_pod("db-0", "u-1");
    let second = server.user("jane").create(&by_jane("second")).await.ok();
    assert_eq!(second["spec"]["target"]["pod"]["uid"], "u-1");
}

#[tokio::test]
async fn rule_1_one_that_was_canceled_stays_as_history_and_blocks_nothing() {
    let server = Server::start().await;
    let jane = server.user("jane");
    jane.create(&by_jane("first")).await.ok();
    jane.edit("first", |object| object["spec"]["requesters"] = json!([])).await.ok();
    jane.create(&by_jane("second")).await.ok();
    assert_eq!(jane.get("evacuations/first").await.ok()["metadata"]["name"], "first");
}

#[tokio::test]
async fn rule_1_one_that_is_deleted_blocks_nothing_while_its_finalizer_is_awaited() {
    let server = Server::start().await;
    let jane = server.user("jane");
    jane.create(&by_jane("first")).await.ok();
    server.begin("first", &[responder("self", 10_000, "Active")]).await;
    jane.delete("first").await.ok();
    let deleted = jane.get("evacuations/first").await.ok();
    assert_eq!(deleted["metadata"]["finalizers"], json!(["evacuation.dev/cancellation"]));
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    jane.create(&by_jane("second")).await.ok();

    // The responder learns of it, and the object goes.
    server.target().respond("first", json!({"acknowledgeCancellation": true})).await.ok();
    jane.get("evacuations/first").await.refused(404, "NotFound");
    server.user("joe").create(&by_jane("third")).await.refused(409, "Conflict");
}

#[tokio::test]
async fn rule_1_where_nobody_was_asked_a_deletion_is_at_once() {
    let server = Server::start().await;
    let jane = server.user("jane");
    jane.create(&by_jane("first")).await.ok();
    jane.delete("first").await.ok();
    jane.get("evacuations/first").await.refused(404, "NotFound");
    jane.create(&by_jane("first")).await.ok();
}

#[tokio::test]
async fn rule_1_a_dry_run_claims_nothing() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let dry = jane.create_with(&by_jane("first"), "?dryRun=All").await.ok();
    assert_eq!(dry["spec"]["target"]["pod"]["uid"], "u-0");
    jane.create(&by_jane("second")).await.ok();
}
