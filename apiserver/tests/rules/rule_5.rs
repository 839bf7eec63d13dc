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

/// `atDeadline: Delete` needs `delete pods`.
///
/// # Attack
///
/// - Attacker: a user who may evict but not delete
/// - Act: asks for a deletion at the deadline
/// - Promise: 5
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

/// The controller asks the other pods of a PodGroup in the name of the user who asked for one.
///
/// # Attack
///
/// - Attacker: a user who may evict one pod of a PodGroup
/// - Act: asks that pod, so that the controller, which may evict all pods, asks or deletes the others
/// - Promise: 5
#[tokio::test]
async fn rule_5_the_owner_of_an_entry_for_a_pod_group_needs_the_rights_as_well() {
    let server = Server::start().await;
    for right in ["create pods/eviction", "delete pods", "override evacuations"] {
        server.cluster.grant("controller", right);
    }
    server.cluster.grant("mallory", "create pods/eviction db-1");
    let of = |groups: &[&str], mut entry: Value| {
        entry["owner"] = json!("mallory");
        let mut object = evacuation("e", "db-0", &[requester("pod-group.evacuation.dev/member", entry)]);
        let groups = json!({"owner": "mallory", "groups": groups}).to_string();
        object["metadata"]["annotations"] = json!({"evacuation.dev/owner-groups": groups});
        object
    };
    let controller = server.user("controller");
    let wait = || json!({"onRefusal": "Wait"});
    let refusal = controller.create(&of(&[], wait())).await.refused(403, "Forbidden");
    refusal.saying(r#"User "mallory" cannot create resource "pods/eviction""#);

    // Joining is no way around, and neither is a harder entry.
    server.cluster.grant("drainers", "create pods/eviction db-0");
    controller.create(&of(&["drainers"], wait())).await.ok();
    let recorded = controller.get("evacuations/e").await.ok()["status"]["requesters"][0].clone();
    assert_eq!((&recorded["owner"], &recorded["ownerGroups"]), (&json!("mallory"), &json!(["drainers"])));
    let harder = |object: &mut Value| {
        object["spec"]["requesters"][0]["deadline"] = json!(in_an_hour());
        object["spec"]["requesters"][0]["atDeadline"] = json!("Delete");
    };
    let refusal = controller.edit("e", harder).await.refused(403, "Forbidden");
    refusal.saying(r#"User "mallory" cannot delete resource "pods""#);
    server.cluster.grant("mallory", "delete pods db-0");
    controller.edit("e", harder).await.ok();
    // The right to delete is enough for an eviction.
    server.cluster.revoke("drainers", "create pods/eviction db-0");
    let again = |object: &mut Value| {
        let wanted = of(&[], json!({"onRefusal": "Override"}));
        object["spec"]["requesters"] = wanted["spec"]["requesters"].clone();
    };
    controller.edit("e", again).await.ok();
    server.cluster.revoke("mallory", "delete pods db-0");
    let harder = controller.edit("e", harder).await;
    harder.refused(403, "Forbidden").saying("cannot delete resource");
}

/// # Attack
///
/// - Attacker: a user who may evict one pod of a PodGroup
/// - Act: declares groups of its own, which the controller would declare for the other pods
/// - Promise: 5
#[tokio::test]
async fn rule_5_groups_that_a_user_declares_are_not_recorded() {
    let server = Server::start().await;
    let mut object = evacuation("e", "db-0", &[requester("a.example.com/a", json!({}))]);
    let groups = json!({"owner": "jane", "groups": ["system:masters"]}).to_string();
    object["metadata"]["annotations"] = json!({"evacuation.dev/owner-groups": groups});
    let created = server.user("jane").create(&object).await.ok();
    let recorded = &created["status"]["requesters"][0];
    assert!(recorded["groups"].as_array().unwrap().contains(&json!("people")), "{recorded}");
    assert_eq!(recorded["ownerGroups"], Value::Null);
}
