//! The same requests are recorded in the same way.

use std::{path::Path, time::Duration};

use controlplane::eventually;
use kube::Client;
use serde_json::{Value, json};

use crate::stage::Stage;

const AGENT: &str = "spoon/1.0";
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
  omitManagedFields: true
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: own.kitchen.dev}, {group: crd.kitchen.dev}]
- level: Metadata
  omitStages: [RequestReceived]
  resources: [{group: own.kitchen.dev, resources: [pans]}, {group: crd.kitchen.dev, resources: ['*']}]
- level: None
";

async fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("user-agent", AGENT)
        .header("content-type", content_type)
        .body(body.into_bytes())
        .unwrap();
    // Some of them are refused.
    let _ = client.request_text(request).await;
}

/// Sends the requests to one group.
async fn play(admin: &Client, nobody: &Client, group: &str) {
    let pans = format!("/apis/{group}.kitchen.dev/v1/namespaces/default/pans");
    let a = format!("{pans}/a");
    let json_type = "application/json";
    let pan = |name: &str, size: i64| {
        let api_version = format!("{group}.kitchen.dev/v1");
        json!({"apiVersion": api_version, "kind": "Pan", "metadata": {"name": name}, "spec": {"size": size}})
    };
    send(admin, "POST", &pans, json_type, &pan("a", 1)).await;
    send(admin, "POST", &pans, json_type, &pan("a", 1)).await;
    send(admin, "POST", &pans, json_type, &pan("b", -1)).await;
    send(admin, "PATCH", &a, "application/merge-patch+json", &json!({"spec": {"size": 2}})).await;
    let mut update = pan("a", 3);
    update["metadata"]["resourceVersion"] = json!("1");
    send(admin, "PUT", &a, json_type, &update).await;
    let applied = format!("{a}?fieldManager=spoon&force=true");
    send(admin, "PATCH", &applied, "application/apply-patch+yaml", &pan("a", 4)).await;
    send(admin, "GET", &a, json_type, &Value::Null).await;
    send(admin, "GET", &format!("{pans}?limit=5"), json_type, &Value::Null).await;
    send(admin, "GET", &format!("{pans}?timeoutSeconds=1&watch=true"), json_type, &Value::Null).await;
    send(nobody, "GET", &pans, json_type, &Value::Null).await;
    // Without its type, kube-apiserver records the body with one, and we as it was sent.
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    send(admin, "DELETE", &a, json_type, &options).await;
    send(admin, "DELETE", &a, json_type, &Value::Null).await;
    send(admin, "DELETE", &format!("{pans}?labelSelector=none"), json_type, &Value::Null).await;
}

/// The events of a log for one group, in the order of their requests.
fn events(log: &Path, group: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let group = format!("{group}.kitchen.dev");
    let mut events: Vec<Value> = events
        .filter(|event| event["objectRef"]["apiGroup"] == group && event["userAgent"] == AGENT)
        .collect();
    events.sort_by_key(|event| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        (text("requestReceivedTimestamp"), text("stageTimestamp"))
    });
    events
}

/// Names of the fields of an object.
fn keys(object: &Value) -> Vec<&String> {
    object.as_object().into_iter().flat_map(|object| object.keys()).collect()
}

/// What must agree between the servers: all but identifiers, times, addresses and the words of messages.
fn shape(event: &Value, group: &str) -> Value {
    let reference = &event["objectRef"];
    let status = &event["responseStatus"];
    let annotations = &event["annotations"];
    let mut reason = annotations["authorization.k8s.io/reason"].clone();
    if let Some(text) = reason.as_str() {
        reason = json!(!text.is_empty());
    }
    let object = |field: &str| {
        let object = &event[field];
        // kube-apiserver writes the empty token of a list of custom resources, in its replies, too.
        let metadata: Vec<_> =
            keys(&object["metadata"]).into_iter().filter(|key| *key != "continue").collect();
        json!({"kind": object["kind"], "keys": keys(object), "metadata": metadata})
    };
    let shape = json!({
        "keys": keys(event),
        "apiVersion": event["apiVersion"],
        "kind": event["kind"],
        "level": event["level"],
        "stage": event["stage"],
        "verb": event["verb"],
        "requestURI": event["requestURI"],
        "username": event["user"]["username"],
        "groups": event["user"]["groups"],
        "objectRef": reference,
        "code": status["code"],
        "status": status["status"],
        "reason": status["reason"],
        "statusKeys": keys(status),
        "decision": annotations["authorization.k8s.io/decision"],
        "authorized": reason,
        "requestObject": object("requestObject"),
        "responseObject": object("responseObject"),
    });
    serde_json::from_str(&shape.to_string().replace(&format!("{group}.kitchen.dev"), "GROUP")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_those_of_kube_apiserver_for_a_custom_resource() {
    let stage = Stage::open(POLICY, "127.0.0.1:1").await;
    let admin = stage.control_plane.client().unwrap();
    let nobody = stage.control_plane.client_for_user("nobody", None).await.unwrap();
    play(&admin, &nobody, "crd").await;
    play(&admin, &nobody, "own").await;
    // The kube-apiserver refuses what nobody may do before it asks the server, so that is not in its log.
    let not_refused = |event: &Value| event["user"]["username"] != "nobody";
    let (theirs, ours) = (stage.control_plane.audit_log().to_owned(), stage.audit_log.clone());
    let of = |log: &Path, group: &str| -> Vec<Value> {
        events(log, group)
            .iter()
            .filter(|event| not_refused(event))
            .map(|event| shape(event, group))
            .collect()
    };
    // Nine writes with two events, a get, a list, and a watch with two.
    eventually(Duration::from_secs(20), "both logs are complete", || async {
        let counts = (of(&theirs, "crd").len(), of(&ours, "own").len());
        if counts == (22, 22) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await
    .unwrap();
    for (their, our) in of(&theirs, "crd").iter().zip(&of(&ours, "own")) {
        for key in keys(their) {
            assert_eq!(our[key], their[key], "{key} of {our:#}\nand {their:#}");
        }
    }
    let addresses = &events(&ours, "own")[0]["sourceIPs"];
    assert_eq!(addresses, &json!(["127.0.0.1"]), "one client on the machine of the proxy");
    // An aggregated request has one identifier in both logs.
    let proxied = events(&theirs, "own");
    let id = &events(&ours, "own")[0]["auditID"];
    assert!(proxied.iter().any(|event| event["auditID"] == *id), "{id} is not in {proxied:?}");
    stage.traces.shutdown().await;
}
