//! NodeEvacuationRules: the rights of users who make rules, and the drains that are opened for them.

use serde_json::{Value, json};

use crate::{
    harness::Server,
    node_evacuation::{drain, start, user},
};

const RULES: &str = "nodeevacuationrules";
const RULE: &str = "nodeevacuationrules/spot";
const DRAINS: &str = "nodeevacuations";

fn rule(more: &Value) -> Value {
    let mut spec = json!({"marks": [{"taint": {"key": "example.com/spot"}}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule",
        "metadata": {"name": "spot"}, "spec": spec,
    })
}

/// The rule `spot` of jane's.
async fn of_jane(server: &Server) -> Value {
    user(server, "jane").create_of(RULES, &rule(&json!({}))).await.ok()
}

#[tokio::test]
async fn creating_a_rule_needs_the_rights_of_the_drains_that_it_opens() {
    let server = Server::start().await;
    let eve = user(&server, "eve");
    let object = rule(&json!({"template": {"requester": {"deadlineSeconds": 60, "atDeadline": "Delete"}}}));
    for (right, verb, resource) in [
        ("create pods/eviction", "create", "pods/eviction"),
        ("patch nodes", "patch", "nodes"),
        ("delete pods", "delete", "pods"),
    ] {
        eve.create_of(RULES, &object).await.refused(403, "Forbidden").saying(&format!(
            r#"nodeevacuationrules.evacuation.dev "spot" is forbidden: User "eve" cannot {verb} resource "{resource}""#
        ));
        server.cluster.grant("eve", right);
    }
    eve.create_of(RULES, &object).await.ok();
}

#[tokio::test]
async fn the_server_fills_in_the_defaults_records_the_user_and_holds_the_rule_by_a_finalizer() {
    let server = start().await;
    let created = of_jane(&server).await;
    assert_eq!(created["spec"]["maxNodes"], "10%");
    assert_eq!(created["spec"]["template"]["requester"]["onRefusal"], "Wait");
    assert_eq!(created["status"]["requester"]["user"], "jane");
    assert_eq!(created["metadata"]["finalizers"], json!(["drain.evacuation.dev/close"]));
}

#[tokio::test]
async fn a_rule_whose_drains_may_have_no_deadline_is_warned_of() {
    let from = json!({"annotation": "example.com/at"});
    for (spec, is_warned) in [
        (json!({"deadline": {"from": from}}), true),
        (json!({"deadline": {"from": from, "reserveSeconds": 30}}), true),
        (json!({"deadline": {"from": from, "defaultSeconds": 600}}), false),
        (json!({"deadline": {"from": from, "afterSeconds": 600}}), false),
        (json!({"deadline": {"from": from}, "template": {"requester": {"deadlineSeconds": 600}}}), false),
        (json!({}), false),
    ] {
        let server = start().await;
        let created = user(&server, "jane").create_of(RULES, &rule(&spec)).await;
        let warning = "spec.deadline: a notice without a readable time gives no deadline";
        let found = created.warnings.iter().any(|said| said.contains(warning));
        assert_eq!(found, is_warned, "{spec} {created:?}");
        created.ok();
    }
}

#[tokio::test]
async fn a_rule_whose_reserve_takes_the_whole_time_is_warned_of() {
    let from = json!({"annotation": "example.com/at"});
    for (deadline, expected) in [
        (
            json!({"from": from, "defaultSeconds": 60, "reserveSeconds": 60}),
            vec!["60 is not below defaultSeconds, 60:"],
        ),
        (json!({"afterSeconds": 60, "reserveSeconds": 90}), vec!["90 is not below afterSeconds, 60:"]),
        (
            json!({"from": from, "afterSeconds": 30, "defaultSeconds": 60, "reserveSeconds": 90}),
            vec!["90 is not below afterSeconds, 30:", "90 is not below defaultSeconds, 60:"],
        ),
        (json!({"from": from, "defaultSeconds": 60, "reserveSeconds": 59}), vec![]),
        (json!({"from": from, "defaultSeconds": 0, "reserveSeconds": 0}), vec![]),
        (json!({"afterSeconds": 0}), vec![]),
        (json!({"from": from, "reserveSeconds": 90}), vec![]),
    ] {
        let server = start().await;
        let jane = user(&server, "jane");
        let created = jane.create_of(RULES, &rule(&json!({"deadline": deadline}))).await;
        let patch = json!({"spec": {"deadline": deadline, "maxNodes": 3}});
        let updated = jane.merge_patch_at(RULE, patch).await;
        for reply in [created, updated] {
            let of_field = |said: &String| {
                said.split_once("spec.deadline.reserveSeconds: ").map(|(_, said)| said.to_owned())
            };
            let said: Vec<_> = reply.warnings.iter().filter_map(of_field).collect();
            assert_eq!(said.len(), expected.len(), "{deadline} {reply:?}");
            for (said, expected) in said.iter().zip(&expected) {
                assert!(said.starts_with(expected), "{said}");
            }
            reply.ok();
        }
    }
}

#[tokio::test]
async fn the_table_counts_the_notices_that_cannot_be_read() {
    let server = start().await;
    let jane = user(&server, "jane");
    of_jane(&server).await;
    let controller = server.controller().in_namespace("");
    let report = async |problem: &str| {
        let node = json!({
            "name": "n", "mark": "taint example.com/spot", "since": "2026-01-01T00:00:00.000000Z",
            "phase": "Held", "message": "the rule is paused", "noticeProblem": problem,
        });
        let status = json!({"nodesUnread": 1, "nodes": [node]});
        controller.merge_patch_at(&format!("{RULE}/status"), json!({"status": status})).await
    };
    let written = report("annotation at: no time").await.ok();
    assert_eq!(written["status"]["nodes"][0]["noticeProblem"], "annotation at: no time");
    let reply = report(&"x".repeat(4097)).await;
    reply.refused(422, "Invalid").because("FieldValueTooLong", "status.nodes[0].noticeProblem");
    let table = jane.get_table(RULES).await.ok();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let unread = columns.iter().position(|column| column["name"] == "Unread").unwrap();
    assert_eq!(table["rows"][0]["cells"][unread], 1, "{table:#}");
}

#[tokio::test]
async fn a_bad_rule_gets_an_error_that_names_the_field() {
    let server = start().await;
    let reply = user(&server, "jane").create_of(RULES, &rule(&json!({"maxNodes": "all"}))).await;
    reply.refused(422, "Invalid").saying("spec.maxNodes: Invalid value: must be a number of at least 1");
}

#[tokio::test]
async fn another_user_may_pause_a_rule_and_needs_override_for_all_else() {
    let server = start().await;
    of_jane(&server).await;
    let joe = user(&server, "joe");
    joe.edit_at(RULE, |object| object["spec"]["paused"] = json!(true)).await.ok();
    let resume = joe.edit_at(RULE, |object| object["spec"]["paused"] = json!(false)).await;
    resume.refused(403, "Forbidden").saying(r#"belongs to user "jane""#);
    let change = joe.edit_at(RULE, |object| object["spec"]["maxNodes"] = json!("100%")).await;
    change.refused(403, "Forbidden").saying("verb override on nodeevacuationrules.evacuation.dev");
    joe.delete_at(RULE).await.refused(403, "Forbidden");
    server.cluster.grant("joe", "override nodeevacuationrules spot");
    joe.edit_at(RULE, |object| object["spec"]["maxNodes"] = json!("100%")).await.ok();
    joe.delete_at(RULE).await.ok();
}

#[tokio::test]
async fn a_drain_that_is_opened_for_a_rule_belongs_to_the_rules_user() {
    let server = start().await;
    let made = of_jane(&server).await;
    let owner = |uid: &Value| {
        json!([{"apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule", "name": "spot",
                "uid": uid, "controller": true}])
    };
    let mut object = drain("spot.node-a", &json!({}));
    object["metadata"]["ownerReferences"] = owner(&made["metadata"]["uid"]);
    let joe = user(&server, "joe");
    let refusal = joe.create_of(DRAINS, &object).await.refused(403, "Forbidden");
    refusal.saying(r#"cannot open a drain for nodeevacuationrule "spot""#);

    server.cluster.grant("joe", "override nodeevacuations spot.node-a");
    let created = joe.create_of(DRAINS, &object).await.ok();
    assert_eq!(created["status"]["requester"]["user"], "jane");

    object["metadata"]["ownerReferences"] = owner(&json!("another"));
    let reply = joe.create_of(DRAINS, &object).await.refused(422, "Invalid");
    reply.saying(r#"there is no NodeEvacuationRule "spot" of that UID"#);
}

#[tokio::test]
async fn a_rule_opens_no_drain_when_its_user_has_lost_the_rights() {
    let server = start().await;
    let made = of_jane(&server).await;
    for right in ["override nodeevacuations", "create pods/eviction", "patch nodes"] {
        server.cluster.grant("controller", right);
    }
    let mut object = drain("spot.node-a", &json!({}));
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule", "name": "spot",
        "uid": made["metadata"]["uid"], "controller": true,
    }]);
    let controller = user(&server, "controller");
    server.cluster.revoke("jane", "patch nodes");
    let refusal = controller.create_of(DRAINS, &object).await.refused(403, "Forbidden");
    refusal.saying(r#"User "jane" cannot patch resource "nodes""#);
    server.cluster.grant("jane", "patch nodes");
    controller.create_of(DRAINS, &object).await.ok();
}

/// A user who left a group keeps no rule that acts with its rights.
///
/// # Attack
///
/// - Attacker: a user who left the group that may drain
/// - Act: keeps a rule that was made as a member
/// - Promise: 5, 12
#[tokio::test]
async fn a_rule_opens_drains_by_its_users_groups_for_a_time_after_that_users_last_write() {
    let server = Server::start().await;
    for right in ["create pods/eviction", "patch nodes"] {
        server.cluster.revoke("jane", right);
        for name in ["people", "controller"] {
            server.cluster.grant(name, right);
        }
    }
    server.cluster.grant("controller", "override nodeevacuations");
    let created = user(&server, "jane").create_of(RULES, &rule(&json!({}))).await;
    let warning = "come from its groups, which count until";
    assert!(created.warnings.iter().any(|said| said.contains(warning)), "{created:?}");
    let made = created.ok();
    let controller = user(&server, "controller");
    let opens = async |node: &str| {
        let mut object = drain(&format!("spot.{node}"), &json!({}));
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule", "name": "spot",
            "uid": made["metadata"]["uid"], "controller": true,
        }]);
        controller.create_of(DRAINS, &object).await
    };
    assert_eq!(opens("a").await.ok()["status"]["requester"]["groups"], json!(["people"]));

    let age = |object: &mut Value| {
        object["status"]["requester"]["time"] = json!("2026-01-01T00:00:00.000000Z");
    };
    server.rewrite("nodeevacuationrules/spot", age).await;
    let refusal = opens("b").await.refused(403, "Forbidden");
    refusal.saying("the groups of user \"jane\" were recorded at 2026-01-01T00:00:00Z and no longer count");
    // Another user renews nothing, and the user itself does.
    user(&server, "joe").edit_at(RULE, |object| object["spec"]["paused"] = json!(true)).await.ok();
    opens("b").await.refused(403, "Forbidden");
    let jane = user(&server, "jane");
    jane.edit_at(RULE, |object| object["spec"]["paused"] = json!(false)).await.ok();
    opens("b").await.ok();

    // Rights of the user's own name count whatever the age of the groups.
    server.rewrite("nodeevacuationrules/spot", age).await;
    for right in ["create pods/eviction", "patch nodes"] {
        server.cluster.grant("jane", right);
    }
    assert_eq!(opens("c").await.ok()["status"]["requester"]["groups"], json!(["system:authenticated"]));
}

#[tokio::test]
async fn no_user_makes_a_drain_that_of_a_rule_which_would_delete_it() {
    let server = start().await;
    crate::node_evacuation::of_jane(&server, json!({})).await;
    let owner = json!([{
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule", "name": "x", "uid": "x",
        "controller": true,
    }]);
    let joe = user(&server, "joe");
    let path = format!("{DRAINS}/d");
    let refusal = joe.edit_at(&path, |object| object["metadata"]["ownerReferences"] = owner.clone()).await;
    refusal
        .refused(403, "Forbidden")
        .saying("cannot change the nodeevacuationrule in metadata.ownerReferences");
    server.cluster.grant("joe", "override nodeevacuations d");
    joe.edit_at(&path, |object| object["metadata"]["ownerReferences"] = owner).await.ok();
    server.cluster.revoke("joe", "override nodeevacuations d");
    let refusal = joe.edit_at(&path, |object| object["metadata"]["ownerReferences"] = json!([])).await;
    refusal.refused(403, "Forbidden");
}
