//! Rule 5: adding or hardening an entry is authorised like the act that it asks for.

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::harness::{Server, evacuation, join, requester};

fn in_an_hour() -> String {
    (Utc::now() + TimeDelta::hours(1)).to_rfc3339()
}

fn deleting() -> Value {
    json!({"deadline": in_an_hour(), "atDeadline": "Delete"})
}

#[tokio::test]
async fn rule_5_creating_needs_the_right_to_evict() {
    let server = Server::start().await;
    let object = evacuation("e", "db-0", &[requester("a.example.com/a", json!({}))]);
    let refusal = server.user("mallory").create(&object).await.refused(403, "Forbidden");
    refusal.saying(
        r#"evacuations.evacuation.dev "e" is forbidden: User "mallory" cannot create resource "pods/eviction" in API group "" in the namespace "shop""#,
    );
    server.cluster.grant("mallory", "create pods/eviction db-0");
    server.user("mallory").create(&object).await.ok();
}

#[tokio::test]
async fn rule_5_asking_for_a_deletion_needs_the_right_to_delete() {
    let server = Server::start().await;
    let object = evacuation("e", "db-0", &[requester("a.example.com/a", deleting())]);
    let refusal = server.user("jane").create(&object).await.refused(403, "Forbidden");
    refusal.saying(r#"User "jane" cannot delete resource "pods""#);
    server.cluster.grant("jane", "delete pods db-0");
    server.user("jane").create(&object).await.ok();
}

#[tokio::test]
async fn rule_5_joining_needs_the_same_rights() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    let mallory = server.user("mallory");
    let joining = mallory
        .edit("e", |object| {
            join(object, requester("m.example.com/m", json!({})));
        })
        .await;
    joining.refused(403, "Forbidden").saying("\"pods/eviction\"");
    let joining = server
        .user("joe")
        .edit("e", |object| {
            join(object, requester("j.example.com/j", deleting()));
        })
        .await;
    joining.refused(403, "Forbidden").saying("cannot delete resource \"pods\"");
}

#[tokio::test]
async fn rule_5_hardening_needs_them_and_softening_does_not() {
    let server = Server::start().await;
    server.cluster.grant("once", "create pods/eviction");
    let entry = requester("once.example.com/a", json!({"onRefusal": "Wait"}));
    server.user("once").create(&evacuation("e", "db-0", &[entry])).await.ok();
    server.cluster.asked();

    let change = |field: &'static str, value: Value| {
        move |object: &mut Value| object["spec"]["requesters"][0][field] = value
    };
    let once = server.user("once");
    once.edit("e", change("onRefusal", json!("GiveUp"))).await.ok();
    once.edit("e", change("message", json!("for a while"))).await.ok();
    assert_eq!(server.cluster.asked(), [""; 0]);
    once.edit("e", change("onRefusal", json!("Override"))).await.ok();
    assert_eq!(server.cluster.asked(), ["create pods/eviction db-0"]);
    let delete = |object: &mut Value| {
        object["spec"]["requesters"][0]["deadline"] = json!(in_an_hour());
        object["spec"]["requesters"][0]["atDeadline"] = json!("Delete");
    };
    once.edit("e", delete).await.refused(403, "Forbidden").saying("cannot delete resource \"pods\"");
    assert_eq!(server.cluster.asked(), ["create pods/eviction db-0", "delete pods db-0"]);
}
