//! NodeEvacuations: the controller's status, the output of `kubectl get`, lists and watches.

use serde_json::{Value, json};

use crate::{
    harness::Server,
    node_evacuation::{drain, finish, of_jane, start, user},
};

const DRAINS: &str = "nodeevacuations";
const DRAIN: &str = "nodeevacuations/d";
const STATUS: &str = "nodeevacuations/d/status";

fn node(name: &str, cordoned: &str) -> Value {
    json!({"name": name, "cordoned": cordoned})
}

/// Replaces fields of the status, as the controller does.
async fn report(server: &Server, name: &str, fields: Value) -> Value {
    let controller = server.controller().in_namespace("");
    let patch = json!({"status": fields});
    controller.merge_patch_at(&format!("{DRAINS}/{name}/status"), patch).await.ok()
}

#[tokio::test]
async fn the_end_of_a_drain_is_final_for_its_status_and_its_spec() {
    let server = start().await;
    of_jane(&server, json!({})).await;
    let finished = finish(&server, "d").await;
    let controller = server.controller().in_namespace("");
    for (fields, field) in [
        (json!({"conditions": []}), "status.conditions"),
        (json!({"finishTime": null}), "status.finishTime"),
        (json!({"finishTime": "2026-02-02T00:00:00Z"}), "status.finishTime"),
    ] {
        let reply = controller.merge_patch_at(STATUS, json!({"status": fields})).await;
        reply.refused(422, "Invalid").because("FieldValueInvalid", field);
    }
    controller.update_at(STATUS, &finished).await.ok();

    let jane = user(&server, "jane");
    for spec in [json!({"paused": true}), json!({"cordon": "Never"})] {
        let reply = jane.merge_patch_at(DRAIN, json!({"spec": spec})).await;
        reply.refused(409, "Conflict").saying("the drain has ended").cause("NodeEvacuationFinished");
    }
    jane.merge_patch_at(DRAIN, json!({"metadata": {"labels": {"done": "yes"}}})).await.ok();
}

#[tokio::test]
async fn a_status_that_is_too_large_is_refused_and_the_field_named() {
    let server = start().await;
    of_jane(&server, json!({})).await;
    let controller = server.controller().in_namespace("");
    let nodes: Vec<Value> = (0..501).map(|n| node(&format!("n{n}"), "No")).collect();
    let blocker =
        json!({"node": "n", "reason": "Refused", "since": "2026-01-01T00:00:00.000000Z", "message": "m"});
    for (fields, reason, field) in [
        (json!({"nodes": nodes}), "FieldValueTooMany", "status.nodes"),
        (json!({"blockers": vec![blocker; 21]}), "FieldValueTooMany", "status.blockers"),
        (json!({"message": "x".repeat(4097)}), "FieldValueTooLong", "status.message"),
    ] {
        let reply = controller.merge_patch_at(STATUS, json!({"status": fields})).await;
        reply.refused(422, "Invalid").because(reason, field);
    }
    let largest: Vec<Value> = nodes.into_iter().skip(1).collect();
    report(&server, "d", json!({"nodes": largest, "message": "x".repeat(4096)})).await;
}

#[tokio::test]
async fn the_table_shows_nodes_verdict_and_progress() {
    let server = start().await;
    let jane = user(&server, "jane");
    of_jane(&server, json!({})).await;
    let several = json!({"nodes": {"names": ["a", "b", "c"]}});
    let selected = json!({"nodes": {"selector": {"matchLabels": {"pool": "x"}}}});
    jane.create_of(DRAINS, &drain("several", &several)).await.ok();
    jane.create_of(DRAINS, &drain("selected", &selected)).await.ok();
    let mut done = node("c", "No");
    done["phase"] = json!("Drained");
    let blocker = json!({"node": "a", "pod": "shop/db-0", "reason": "Refused", "message": "it refused",
        "since": "2026-01-01T09:00:00Z"});
    let progress = json!({
        "verdict": "Stuck", "message": "a budget allows no disruption",
        "blockers": [blocker], "blockersOmitted": 1,
        "expectedCompletion": "2026-01-01T10:00:00.000000Z",
        "pods": {"total": 20, "gone": 17},
        "nodes": [node("a", "Ours"), node("b", "Others"), done],
    });
    report(&server, "several", progress).await;
    let table = jane.get_table(DRAINS).await.ok();
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(
        columns,
        [
            "Name",
            "Nodes",
            "Verdict",
            "Gone",
            "Blocked",
            "Cordoned",
            "Message",
            "Requester",
            "Expected",
            "Age"
        ]
    );
    let rows = [
        json!(["d", "node-a", "Waiting", "0/0", 0, "0/1", "", "jane", ""]),
        json!(["selected", "<selector>", "Waiting", "0/0", 0, "0/0", "", "jane", ""]),
        json!([
            "several",
            "1/3",
            "Stuck",
            "17/20",
            2,
            "2/3",
            "a budget allows no disruption",
            "jane",
            "2026-01-01T10:00:00Z"
        ]),
    ];
    let found: Vec<&[Value]> =
        table["rows"].as_array().unwrap().iter().map(|row| &row["cells"].as_array().unwrap()[..9]).collect();
    assert_eq!(found, rows.each_ref().map(|row| row.as_array().unwrap().as_slice()));
}

#[tokio::test]
async fn the_table_tells_the_cordons_of_a_drain_that_has_ended_as_those_of_its_end() {
    let server = start().await;
    let jane = user(&server, "jane");
    of_jane(&server, json!({})).await;
    report(&server, "d", json!({"nodes": [node("node-a", "Ours")]})).await;
    let table = jane.get_table(DRAINS).await.ok();
    assert_eq!(table["rows"][0]["cells"][5], "1/1");
    finish(&server, "d").await;
    let table = jane.get_table(DRAINS).await.ok();
    assert_eq!(table["rows"][0]["cells"][5], "1/1 at the end");
}

#[tokio::test]
async fn drains_are_listed_selected_and_watched_in_the_whole_cluster() {
    let server = start().await;
    let jane = user(&server, "jane");
    for name in ["d", "e"] {
        jane.create_of(DRAINS, &drain(name, &json!({}))).await.ok();
    }
    report(&server, "e", json!({"verdict": "Stuck"})).await;
    for (query, expected) in [
        ("", vec!["d", "e"]),
        ("?fieldSelector=status.verdict%3DStuck", vec!["e"]),
        ("?fieldSelector=status.verdict%3DWaiting", vec!["d"]),
        ("?fieldSelector=metadata.name%3Dd", vec!["d"]),
    ] {
        let list = jane.get(&format!("{DRAINS}{query}")).await.ok();
        let names: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, expected, "{query}");
    }
    let watched = jane.get(&format!("{DRAINS}?watch=true&timeoutSeconds=1")).await.ok();
    let events: Vec<Value> =
        watched["text"].as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let added: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "ADDED")
        .map(|event| &event["object"]["metadata"]["name"])
        .collect();
    assert_eq!(added, ["d", "e"]);
    server.user("jane").get(DRAIN).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_collection_of_drains_is_deleted_by_a_selector() {
    let server = start().await;
    let jane = user(&server, "jane");
    let mut generated = drain("", &json!({}));
    generated["metadata"] = json!({"generateName": "kernel-"});
    let generated = jane.create_of(DRAINS, &generated).await.ok();
    assert!(generated["metadata"]["name"].as_str().unwrap().starts_with("kernel-"), "{generated:#}");
    of_jane(&server, json!({})).await;
    report(&server, "d", json!({"verdict": "Stuck"})).await;
    jane.delete_at(&format!("{DRAINS}?fieldSelector=status.verdict%3DStuck")).await.ok();
    let list = jane.get(DRAINS).await.ok();
    let deleted = |item: &Value| item["metadata"]["deletionTimestamp"].is_string();
    let deleted: Vec<bool> = list["items"].as_array().unwrap().iter().map(deleted).collect();
    assert_eq!(deleted, [true, false]);
}

#[tokio::test]
async fn discovery_lists_the_kind_as_cluster_scoped_with_its_short_name() {
    let server = start().await;
    let list = user(&server, "jane").get("").await.ok();
    let resources = list["resources"].as_array().unwrap();
    let found: Vec<&Value> =
        resources.iter().filter(|resource| resource["kind"] == "NodeEvacuation").collect();
    let names: Vec<&Value> = found.iter().map(|resource| &resource["name"]).collect();
    assert_eq!(names, [DRAINS, "nodeevacuations/status"]);
    assert!(found.iter().all(|resource| resource["namespaced"] == false), "{found:#?}");
    assert_eq!(found[0]["shortNames"], json!(["nodeevac"]));
}

#[tokio::test]
async fn a_dry_run_creates_changes_and_deletes_no_drain() {
    let server = start().await;
    let jane = user(&server, "jane");
    let dry = format!("{DRAINS}?dryRun=All");
    let shown = jane.create_of(&dry, &drain("d", &json!({}))).await.ok();
    assert_eq!(shown["status"]["requester"]["user"], "jane");
    jane.get(DRAIN).await.refused(404, "NotFound");
    user(&server, "eve").create_of(&dry, &drain("d", &json!({}))).await.refused(403, "Forbidden");

    let created = of_jane(&server, json!({})).await;
    let dry = format!("{DRAIN}?dryRun=All");
    jane.merge_patch_at(&dry, json!({"spec": {"paused": true}})).await.ok();
    jane.delete_at(&dry).await.ok();
    assert_eq!(jane.get(DRAIN).await.ok(), created);
}
