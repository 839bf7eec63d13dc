//! Rule 3 under server-side apply: an entry belongs to its user, also in the record of ownership.

use evacuation_apiserver::LimitOptions;
use serde_json::{Value, json};

use crate::harness::{Server, requester};

const JANES: &str = "jane.example.com/a";
const JOES: &str = "joe.example.com/b";

/// Returns the configuration of the Evacuation `e` with these entries.
fn configuration(entries: &[Value]) -> Value {
    json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "Evacuation", "metadata": {"name": "e", "namespace": "shop"},
        "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": entries},
    })
}

/// An Evacuation `e` that jane applies with an entry of hers with a deadline, and joe with one of his.
async fn of_two(server: &Server) {
    let janes = requester(JANES, json!({"deadline": "2037-01-01T00:00:00Z"}));
    server.user("jane").apply("e", "flux", &configuration(&[janes])).await.ok();
    server.user("joe").apply("e", "kubectl", &configuration(&[requester(JOES, json!({}))])).await.ok();
}

/// Jane applies her configuration without her entry. Returns the names of the entries that are left.
async fn left_after_janes(server: &Server) -> Vec<String> {
    let mut without = configuration(&[]);
    without["metadata"]["resourceVersion"] =
        server.user("jane").get("evacuations/e").await.ok()["metadata"]["resourceVersion"].clone();
    let applied = server.user("jane").apply("e", "flux", &without).await.ok();
    let entries = applied["spec"]["requesters"].as_array().unwrap();
    entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// # Attack
///
/// - Attacker: a user who may update Evacuations
/// - Act: applies the keys of the entry of another, so that the entry outlives its owner's configuration,
///   without its deadline
/// - Promise: 3
#[tokio::test]
async fn rule_3_nobody_becomes_a_co_owner_of_the_entry_of_another() {
    let server = Server::start().await;
    of_two(&server).await;
    let both = configuration(&[requester(JOES, json!({})), json!({"owner": "jane", "name": JANES})]);
    let refused = server.user("joe").apply("e", "kubectl", &both).await.refused(403, "Forbidden");
    refused.saying("jane").cause("RequesterOfAnother");
    assert_eq!(left_after_janes(&server).await, [JOES]);
}

#[tokio::test]
async fn rule_3_the_verb_override_lifts_that_for_applies() {
    let server = Server::start().await;
    of_two(&server).await;
    server.cluster.grant("root", "override evacuations e");
    let janes = json!({"owner": "jane", "name": JANES, "deadline": "2037-01-01T00:00:00Z"});
    server.user("root").apply("e", "root", &configuration(&[janes])).await.ok();
}

/// # Attack
///
/// - Attacker: a user who may update Evacuations
/// - Act: writes itself into `metadata.managedFields` as an owner of the entry of another
/// - Promise: 3
#[tokio::test]
async fn rule_3_nobody_writes_the_record_of_the_entry_of_another() {
    let server = Server::start().await;
    of_two(&server).await;
    let forge = |object: &mut Value| {
        let key = format!("k:{}", json!({"name": JANES, "owner": "jane"}));
        let fields = json!({"f:spec": {"f:requesters": {key: {".": {}, "f:name": {}, "f:owner": {}}}}});
        object["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({
            "manager": "mallory", "operation": "Apply", "apiVersion": "evacuation.dev/v1alpha1",
            "time": "2026-11-20T12:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }));
    };
    let written = server.user("joe").edit("e", forge).await.ok();
    let record = written["metadata"]["managedFields"].as_array().unwrap();
    assert!(record.iter().all(|part| part["manager"] != "mallory"), "{record:#?}");
    assert_eq!(left_after_janes(&server).await, [JOES]);
}

/// # Attack
///
/// - Attacker: a user who may update Evacuations
/// - Act: applies under the names of many managers, until the record of ownership has no room for others
/// - Promise: 8
#[tokio::test]
async fn rule_8_the_applies_of_one_user_leave_room_in_the_record_for_those_of_others() {
    let server = Server::with_limits(LimitOptions::default()).await;
    of_two(&server).await;
    let mut parts = 0;
    for number in 0.. {
        let manager = format!("{number:0120}");
        let joes = configuration(&[requester(JOES, json!({}))]);
        let reply = server.user("joe").apply("e", &manager, &joes).await;
        if reply.code == 413 {
            reply.refused(413, "RequestEntityTooLarge").saying("for applies by user \"joe\"");
            break;
        }
        parts = number;
    }
    assert!(parts > 50, "{parts}");
    let janes = requester(JANES, json!({"deadline": "2037-01-01T00:00:00Z"}));
    server.user("jane").apply("e", "another", &configuration(&[janes])).await.ok();
}

/// # Attack
///
/// - Attacker: a user who may update Evacuations
/// - Act: fills `metadata.managedFields` with parts of its own, so that others have no room to apply
/// - Promise: 8
#[tokio::test]
async fn rule_8_a_written_record_leaves_room_for_the_applies_of_others_too() {
    let server = Server::start().await;
    of_two(&server).await;
    let fill = |object: &mut Value| {
        let key = format!("k:{}", json!({"name": JOES, "owner": "joe"}));
        let fields = json!({"f:spec": {"f:requesters": {key: {"f:reason": {}}}}});
        object["metadata"]["managedFields"].as_array_mut().unwrap().extend((0..800).map(|number| {
            json!({
                "manager": format!("{number:0120}"), "operation": "Apply", "apiVersion": "evacuation.dev/v1alpha1",
                "time": "2026-11-20T12:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields.clone(),
            })
        }));
    };
    let written = server.user("joe").edit("e", fill).await.ok();
    let record = written["metadata"]["managedFields"].as_array().unwrap();
    assert!(record.len() < 10, "{} parts", record.len());
    assert_eq!(left_after_janes(&server).await, [JOES]);
}
