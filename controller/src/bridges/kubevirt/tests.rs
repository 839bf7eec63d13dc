//! The responder against an API that shows more than its watches did.

use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::Value;
use tower_test::mock;

use super::*;
use crate::{
    builtin::testing::evacuation,
    cluster::{EventSink, Leadership, Watched, lock},
};

const WAITED: &str = "evacuation-e-uid-1";

const MIGRATIONS: &str = "virtualmachineinstancemigrations";

/// What the API was asked, in order.
type Asked = Arc<Mutex<Vec<String>>>;

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

/// A responder whose watches show a machine without a migration, and an Evacuation without an answer. The API
/// has `recorded` for that Evacuation and these migrations of others, and takes every write.
fn migrations(recorded: Option<Evacuation>, others: &[Value]) -> (Arc<Migrations>, Asked) {
    let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    let asked = Asked::default();
    let all_others =
        json!({"apiVersion": "kubevirt.io/v1", "metadata": {}, "items": others}).to_string().into_bytes();
    let answering = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            let (parts, body) = request.into_parts();
            let last = parts.uri.path().rsplit('/').next().unwrap_or_default();
            lock(&answering).push(format!("{} {last}", parts.method));
            let found = recorded.as_ref().filter(|_| last == "e");
            let (code, body) = match (parts.method.as_str(), found) {
                ("GET", None) if last == MIGRATIONS => (200, all_others.clone()),
                ("GET", Some(found)) => (200, serde_json::to_vec(found).unwrap()),
                ("GET", None) => (404, br#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#.to_vec()),
                _ => (201, body.collect().await.unwrap().to_bytes().to_vec()),
            };
            let body = Body::from(body);
            send.send_response(Response::builder().status(code).body(body).unwrap());
        }
    });
    let cluster = Cluster::new(Client::new(service, "default"), Leadership::alone(), EventSink::default());
    cluster.view.apply(owned_pod());
    cluster.view.apply(evacuation("e", MIGRATE_RESPONDER, &json!({})));
    let migrations = Migrations::new(&cluster);
    let machine = json!({
        "metadata": {"namespace": "ns", "name": "vm", "uid": "v", "resourceVersion": "1"},
        "spec": {"evictionStrategy": "LiveMigrate"},
        "status": {"nodeName": "a", "phase": "Running", "conditions": [{"type": "LiveMigratable", "status": "True"}]},
    });
    migrations.machines.reset(vec![object(&MACHINE, machine)]);
    migrations.jobs.reset(Vec::new());
    (migrations, asked)
}

/// The requests of one round of work for the pod.
async fn requests(recorded: Option<Evacuation>, others: &[Value]) -> Vec<String> {
    let (migrations, asked) = migrations(recorded, others);
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
    assert_eq!(requests, ["GET e", &format!("GET {MIGRATIONS}"), &create]);
}

#[tokio::test]
async fn a_migration_that_a_user_deleted_is_not_created_again_when_the_watch_of_the_answer_is_late() {
    let message = format!("waiting for migration {WAITED}");
    let waits = json!({"answer": "Delay", "reason": "Migrating", "message": message});
    let requests = requests(Some(recorded(&waits)), &[]).await;
    let reads = ["GET e".to_owned(), format!("GET {MIGRATIONS}"), format!("GET {WAITED}")];
    assert_eq!(requests, [reads.as_slice(), &["POST respond".to_owned()]].concat());
}

#[tokio::test]
async fn a_migration_of_others_is_waited_for_when_its_watch_is_late() {
    let others = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"namespace": "ns", "name": "users", "uid": "m2", "resourceVersion": "8"},
        "spec": {"vmiName": "vm"}});
    let requests = requests(Some(recorded(&json!({}))), &[others]).await;
    assert_eq!(requests, ["GET e", &format!("GET {MIGRATIONS}"), "POST respond"]);
}

#[tokio::test]
async fn a_request_that_has_ended_starts_no_migration_when_its_watch_is_late() {
    let interrupted = recorded(&json!({"state": "Interrupted"}));
    for ended in [None, Some(interrupted)] {
        assert_eq!(requests(ended, &[]).await, ["GET e"]);
    }
}
