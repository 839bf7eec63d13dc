//! Rule 2: the target's UID is resolved and pinned at creation, after the caller was authorised.

use serde_json::json;

use crate::harness::{Server, evacuation, requester};

fn of_pod(pod: &str) -> serde_json::Value {
    evacuation("e", pod, &[requester("jane.example.com/a", json!({}))])
}

#[tokio::test]
async fn rule_2_the_uid_is_that_of_the_live_pod() {
    let server = Server::start().await;
    let created = server.user("jane").create(&of_pod("db-0")).await.ok();
    assert_eq!(created["spec"]["target"]["pod"], json!({"name": "db-0", "uid": "u-0"}));
}

/// The server compares the UID with that of the live pod.
///
/// # Attack
///
/// - Attacker: a requester
/// - Act: names the UID of an earlier pod of that name
/// - Promise: 2, 10
#[tokio::test]
async fn rule_2_a_uid_that_is_given_must_be_that_of_the_live_pod() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let mut object = of_pod("db-0");
    object["spec"]["target"]["pod"]["uid"] = json!("u-of-another");
    let refusal = jane.create(&object).await.refused(409, "Conflict");
    refusal.saying("u-of-another").saying("u-0").because("WrongPod", "spec.target.pod.uid");
    object["spec"]["target"]["pod"]["uid"] = json!("u-0");
    jane.create(&object).await.ok();
}

#[tokio::test]
async fn rule_2_a_pod_that_does_not_exist_is_refused_with_its_name() {
    let server = Server::start().await;
    let refusal = server.user("jane").create(&of_pod("db-7")).await.refused(422, "Invalid");
    refusal.saying("\"db-7\"").because("FieldValueNotFound", "spec.target.pod.name");
}

/// A missing pod and a forbidden one get the same reply.
///
/// # Attack
///
/// - Attacker: a user without rights in a namespace
/// - Act: probes for the names of its pods
/// - Promise: 2, 5
#[tokio::test]
async fn rule_2_nobody_learns_of_pods_that_it_may_not_evict() {
    let server = Server::start().await;
    let mallory = server.user("mallory");
    for pod in ["db-0", "db-7"] {
        let refusal = mallory.create(&of_pod(pod)).await.refused(403, "Forbidden");
        refusal.saying(r#"User "mallory" cannot create resource "pods/eviction""#);
    }
    assert_eq!(server.cluster.asked(), ["create pods/eviction db-0", "create pods/eviction db-7"]);

    server.user("jane").create(&of_pod("db-0")).await.ok();
    assert_eq!(server.cluster.asked(), ["create pods/eviction db-0", "get pod db-0"]);
}

#[tokio::test]
async fn rule_2_the_target_never_changes() {
    let server = Server::start().await;
    let jane = server.user("jane");
    jane.create(&of_pod("db-0")).await.ok();
    for target in [json!({"name": "db-1"}), json!({"name": "db-0", "uid": "u-1"})] {
        let change = |object: &mut serde_json::Value| object["spec"]["target"]["pod"] = target;
        jane.edit("e", change).await.refused(422, "Invalid").saying("spec.target");
    }
    // A manifest that leaves the UID to the server can be applied again.
    let kept = jane
        .edit("e", |object| {
            object["spec"]["target"]["pod"] = json!({"name": "db-0"});
        })
        .await
        .ok();
    assert_eq!(kept["spec"]["target"]["pod"]["uid"], "u-0");
}

#[tokio::test]
async fn rule_2_a_mirror_pod_is_refused_and_a_daemonset_pod_is_warned_of() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "hash"}});
    server.cluster.add_pod_as("static-0", "u-1", mirror, json!({}));
    let refusal = jane.create(&of_pod("static-0")).await.refused(422, "Invalid");
    refusal.saying("mirror pod").because("FieldValueForbidden", "spec.target.pod.name");

    let owned = json!({"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u-d", "controller": true},
    ]});
    server.cluster.add_pod_as("agent-0", "u-2", owned, json!({}));
    let reply = jane.create(&of_pod("agent-0")).await;
    assert!(reply.warnings.iter().any(|warning| warning.contains("DaemonSet")), "{reply:#?}");
    reply.ok();
}
