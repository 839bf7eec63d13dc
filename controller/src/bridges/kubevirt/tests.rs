//! The responder against an API that shows more than its watches did.

use serde_json::Value;

use super::*;
use crate::{
    builtin::testing::evacuation,
    cluster::{
        Watched, lock,
        testing::{Asked, cluster_with_api, last, not_found},
    },
};

const WAITED: &str = "evacuation-e-uid-1";

const MIGRATIONS: &str = "virtualmachineinstancemigrations";

fn object(kind: &ForeignKind, value: Value) -> DynamicObject {
    kind.pruned(serde_json::from_value(value).unwrap())
}

fn owned_pod() -> Pod {
    let owner =
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "v"});
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "p1", "resourceVersion": "1", "ownerReferences": [owner]},
        "spec": {"nodeName": "a", "containers": []},
    }))
    .unwrap()
}

fn machine(node: &str, version: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "ns", "name": "vm", "uid": "v", "resourceVersion": version},
        "spec": {"evictionStrategy": "LiveMigrate"},
        "status": {"nodeName": node, "phase": "Running", "conditions": [{"type": "LiveMigratable", "status": "True"}]},
    })
}

/// A responder whose watches show a machine without a migration, and an Evacuation without an answer. The API
/// has `recorded` for that Evacuation, the machine on that node, and these migrations of others. It takes
/// every write.
fn migrations(recorded: Option<Evacuation>, node: &str, others: &[Value]) -> (Arc<Migrations>, Asked) {
    let all_others = json!({"apiVersion": "kubevirt.io/v1", "metadata": {}, "items": others});
    let live = machine(node, "9");
    let (cluster, asked) =
        cluster_with_api(move |request, sent| match (request.method.as_str(), last(request)) {
            ("GET", MIGRATIONS) => (200, all_others.clone()),
            ("GET", "vm") => (200, live.clone()),
            ("GET", "e") => recorded.as_ref().map_or_else(not_found, |found| (200, json!(found))),
            ("GET", _) => not_found(),
            _ => (201, sent),
        });
    cluster.view.apply(owned_pod());
    cluster.view.apply(evacuation("e", MIGRATE_RESPONDER, &json!({})));
    let migrations = Migrations::new(&cluster);
    migrations.machines.reset(vec![object(&MACHINE, machine("a", "1")).into()]);
    migrations.jobs.reset(Vec::new());
    (migrations, asked)
}

/// The requests of one round of work for the pod.
async fn requests(recorded: Option<Evacuation>, others: &[Value]) -> Vec<String> {
    requests_of_machine(recorded, "a", others).await
}

/// The same, with the machine on that node.
async fn requests_of_machine(recorded: Option<Evacuation>, node: &str, others: &[Value]) -> Vec<String> {
    let (migrations, asked) = migrations(recorded, node, others);
    migrations.work(&ObjectKey::new("ns", "p")).await.unwrap();
    lock(&asked).clone()
}

fn recorded(responder: &Value) -> Evacuation {
    evacuation("e", MIGRATE_RESPONDER, responder)
}

#[tokio::test]
async fn a_machine_is_migrated_when_the_record_shows_that_the_responder_is_asked() {
    let requests = requests(Some(recorded(&json!({}))), &[]).await;
    let create = format!("POST {MIGRATIONS}");
    assert_eq!(requests, ["GET e", &format!("GET {MIGRATIONS}"), "GET vm", &create]);
}

#[tokio::test]
async fn a_migration_that_a_user_deleted_is_not_created_again_when_the_watch_of_the_answer_is_late() {
    let message = format!("waiting for migration {WAITED}");
    let waits = json!({"answer": "Delay", "reason": "Migrating", "message": message});
    let requests = requests(Some(recorded(&waits)), &[]).await;
    let reads =
        ["GET e".to_owned(), format!("GET {MIGRATIONS}"), "GET vm".to_owned(), format!("GET {WAITED}")];
    assert_eq!(requests, [reads.as_slice(), &["POST respond".to_owned()]].concat());
}

#[tokio::test]
async fn a_migration_of_others_is_waited_for_when_its_watch_is_late() {
    let others = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"namespace": "ns", "name": "users", "uid": "m2", "resourceVersion": "8"},
        "spec": {"vmiName": "vm"}});
    let requests = requests(Some(recorded(&json!({}))), &[others]).await;
    assert_eq!(requests, ["GET e", &format!("GET {MIGRATIONS}"), "GET vm", "POST respond"]);
}

#[tokio::test]
async fn a_machine_that_a_migration_of_others_has_moved_is_not_migrated_again_when_its_watch_is_late() {
    let others = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"namespace": "ns", "name": "users", "uid": "m2", "resourceVersion": "8"},
        "spec": {"vmiName": "vm"}, "status": {"phase": "Succeeded"}});
    let requests = requests_of_machine(Some(recorded(&json!({}))), "b", &[others]).await;
    assert_eq!(requests, ["GET e", &format!("GET {MIGRATIONS}"), "GET vm", "POST respond"]);
}

#[tokio::test]
async fn a_request_that_has_ended_starts_no_migration_when_its_watch_is_late() {
    let interrupted = recorded(&json!({"state": "Interrupted"}));
    for ended in [None, Some(interrupted)] {
        assert_eq!(requests(ended, &[]).await, ["GET e"]);
    }
}
