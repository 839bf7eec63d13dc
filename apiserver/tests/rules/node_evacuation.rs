//! NodeEvacuations: the rights of users who ask for a drain, change it and delete it.

use evacuation_apiserver::LimitOptions;
use serde_json::{Value, json};

use crate::harness::{Caller, Change, Server};

const DRAINS: &str = "nodeevacuations";
const DRAIN: &str = "nodeevacuations/d";
const FINALIZER: &str = "drain.evacuation.dev/withdraw";

/// A NodeEvacuation of node-a with these further fields of the spec.
pub(crate) fn drain(name: &str, more: &Value) -> Value {
    let mut spec = more.clone();
    if spec.get("nodes").is_none() {
        spec["nodes"] = json!({"names": ["node-a"]});
    }
    json!({
        "apiVersion": "evacuation.dev/v1alpha1",
        "kind": "NodeEvacuation",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A server whose users jane and joe may drain nodes.
pub(crate) async fn start() -> Server {
    start_with(LimitOptions::default()).await
}

async fn start_with(limits: LimitOptions) -> Server {
    let server = Server::with_limits(limits).await;
    for user in ["jane", "joe"] {
        server.cluster.grant(user, "patch nodes");
    }
    server
}

/// A caller of cluster-scoped resources.
pub(crate) fn user<'a>(server: &'a Server, name: &str) -> Caller<'a> {
    server.user(name).in_namespace("")
}

/// The drain `d` of jane's.
pub(crate) async fn of_jane(server: &Server, more: Value) -> Value {
    user(server, "jane").create_of(DRAINS, &drain("d", &more)).await.ok()
}

/// Writes `Finished` and `Drained` as the controller does.
pub(crate) async fn finish(server: &Server, name: &str) -> Value {
    let controller = server.controller().in_namespace("");
    let mut object = controller.get(&format!("{DRAINS}/{name}")).await.ok();
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Drained", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    object["status"]["conditions"] = json!([condition("Finished"), condition("Drained")]);
    object["status"]["finishTime"] = json!("2026-01-01T00:00:00.000000Z");
    controller.update_at(&format!("{DRAINS}/{name}/status"), &object).await.ok()
}

#[tokio::test]
async fn creating_a_drain_needs_each_right_in_the_whole_cluster() {
    let server = Server::start().await;
    let object = drain("d", &json!({"requester": {"deadlineSeconds": 60, "atDeadline": "Delete"}}));
    let eve = user(&server, "eve");
    for (right, verb, resource) in [
        ("create pods/eviction", "create", "pods/eviction"),
        ("patch nodes", "patch", "nodes"),
        ("delete pods", "delete", "pods"),
    ] {
        let refusal = eve.create_of(DRAINS, &object).await.refused(403, "Forbidden");
        refusal.saying(&format!(
            r#"nodeevacuations.evacuation.dev "d" is forbidden: User "eve" cannot {verb} resource "{resource}" in API group "" at the cluster scope"#
        ));
        eve.get(DRAIN).await.refused(404, "NotFound");
        server.cluster.grant("eve", right);
    }
    eve.create_of(DRAINS, &object).await.ok();
}

#[tokio::test]
async fn rights_that_cannot_be_looked_up_are_not_granted() {
    let server = start().await;
    server.cluster.break_down(Some("rights"));
    let reply = user(&server, "jane").create_of(DRAINS, &drain("d", &json!({}))).await;
    reply.refused(503, "ServiceUnavailable");
}

#[tokio::test]
async fn the_server_records_the_requester_and_ignores_the_status_that_callers_send() {
    let server = start().await;
    let forged = json!({"requester": {"user": "root", "time": "2020-01-01T00:00:00Z"}, "verdict": "Drained"});
    let mut object = drain("d", &json!({}));
    object["status"] = forged.clone();
    let created = user(&server, "jane").create_of(DRAINS, &object).await.ok();
    let requester = created["status"]["requester"].clone();
    assert_eq!((&requester["user"], &requester["groups"]), (&json!("jane"), &json!(["people"])));
    assert!(requester["time"].as_str().unwrap() > "2021", "{requester}");
    assert_eq!(created["status"].get("verdict"), None);
    assert_eq!(created["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(created["spec"]["requester"]["onRefusal"], "Wait");
    assert_eq!(created["spec"]["paused"], true, "a status is that of a drain that was restored");

    server.cluster.grant("joe", "override nodeevacuations d");
    let joe = user(&server, "joe");
    let updated = joe
        .edit_at(DRAIN, |object| {
            object["status"] = forged.clone();
            object["spec"]["requester"]["message"] = json!("kernel upgrade");
        })
        .await
        .ok();
    assert_eq!(updated["status"]["requester"], requester);
    for status in [forged, json!({"verdict": "Draining"}), Value::Null] {
        let mut object = updated.clone();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object["status"] = status;
        object["spec"]["paused"] = json!(false);
        let written = joe.update_at(&format!("{DRAIN}/status"), &object).await.ok();
        assert_eq!(written["status"]["requester"], requester);
        assert_eq!(written["spec"], updated["spec"], "the status subresource does not change the spec");
    }
}

#[tokio::test]
async fn another_user_changes_the_request_only_with_override_and_may_pause_without() {
    let server = start().await;
    let created = of_jane(&server, json!({"requester": {"deadlineSeconds": 60}})).await;
    let joe = user(&server, "joe");
    let changes: [(&str, Change); 5] = [
        ("requester", |spec| spec["requester"]["onRefusal"] = json!("GiveUp")),
        ("pods", |spec| spec["pods"]["unmanaged"] = json!("Evict")),
        ("phases", |spec| spec["phases"] = json!([{"minPriority": 1}])),
        ("maxParallel", |spec| spec["maxParallel"] = json!({"nodes": 1})),
        ("cordon", |spec| spec["cordon"] = json!("Never")),
    ];
    for (field, change) in changes {
        let reply = joe.edit_at(DRAIN, |object| change(&mut object["spec"])).await;
        assert_eq!(reply.code, 403, "{field}");
        let refusal = reply.refused(403, "Forbidden").saying(r#"belongs to user "jane""#);
        refusal.saying("override").cause("NodeEvacuationOfAnother");
    }
    joe.merge_patch_at(DRAIN, json!({"spec": {"paused": true}})).await.ok();
    joe.merge_patch_at(DRAIN, json!({"metadata": {"labels": {"team": "os"}}})).await.ok();

    server.cluster.grant("joe", "override nodeevacuations d");
    let overridden = joe.merge_patch_at(DRAIN, json!({"spec": {"cordon": "Never"}})).await.ok();
    assert_eq!(overridden["status"]["requester"], created["status"]["requester"]);
    let nodes = json!({"spec": {"nodes": {"names": ["node-b"]}}});
    let refusal = joe.merge_patch_at(DRAIN, nodes).await.refused(422, "Invalid");
    refusal.because("FieldValueInvalid", "spec.nodes");
}

#[tokio::test]
async fn changing_the_request_needs_the_rights_of_a_creation_and_pausing_does_not() {
    let server = start().await;
    of_jane(&server, json!({})).await;
    server.cluster.revoke("jane", "patch nodes");
    let jane = user(&server, "jane");
    jane.merge_patch_at(DRAIN, json!({"spec": {"paused": true}})).await.ok();
    let patch = json!({"spec": {"cordon": "Never"}});
    jane.merge_patch_at(DRAIN, patch.clone())
        .await
        .refused(403, "Forbidden")
        .saying(r#"patch resource "nodes""#);
    server.cluster.grant("jane", "patch nodes");
    jane.merge_patch_at(DRAIN, patch).await.ok();
    let deleting = json!({"spec": {"requester": {"deadlineSeconds": 60, "atDeadline": "Delete"}}});
    let refused = jane.merge_patch_at(DRAIN, deleting).await.refused(403, "Forbidden");
    refused.saying(r#"cannot delete resource "pods""#);
}

#[tokio::test]
async fn a_drain_is_deleted_by_its_user_or_with_override_and_by_anyone_once_it_has_ended() {
    let server = start().await;
    for name in ["d", "e", "f"] {
        user(&server, "jane").create_of(DRAINS, &drain(name, &json!({}))).await.ok();
    }
    let joe = user(&server, "joe");
    joe.delete_at(DRAIN).await.refused(403, "Forbidden").saying(r#"belongs to user "jane""#);
    server.cluster.grant("joe", "override nodeevacuations e");
    joe.delete_at("nodeevacuations/e").await.ok();
    finish(&server, "f").await;
    joe.delete_at("nodeevacuations/f").await.ok();

    let deleted = user(&server, "jane").delete_at(DRAIN).await.ok();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted:#}");
    assert_eq!(deleted["metadata"]["finalizers"], json!([FINALIZER]));
    // The controller's release of the finalizer changes no spec, and needs no further right.
    server.cluster.asked();
    let controller = server.controller().in_namespace("");
    controller.edit_at(DRAIN, |object| object["metadata"]["finalizers"] = json!([])).await.ok();
    assert_eq!(server.cluster.asked(), [""; 0]);
    joe.get(DRAIN).await.refused(404, "NotFound");
}

#[tokio::test]
async fn whoever_may_pause_a_drain_may_resume_it_and_change_nothing_else_with_it() {
    let server = start().await;
    let (jane, joe) = (user(&server, "jane"), user(&server, "joe"));
    jane.create_of(DRAINS, &drain("d", &json!({}))).await.ok();
    let paused = |paused: bool| json!({"spec": {"paused": paused}});
    for (pauses, resumes) in [(&joe, &joe), (&joe, &jane), (&jane, &joe)] {
        pauses.merge_patch_at(DRAIN, paused(true)).await.ok();
        let more = json!({"spec": {"paused": false, "requester": {"onRefusal": "Override"}}});
        let refused = joe.merge_patch_at(DRAIN, more).await.refused(403, "Forbidden");
        refused.saying(r#"belongs to user "jane""#);
        let resumed = resumes.merge_patch_at(DRAIN, paused(false)).await.ok();
        assert_eq!(resumed["spec"].get("paused"), None);
        assert_eq!(resumed["status"]["requester"]["user"], "jane");
    }
}

#[tokio::test]
async fn an_ended_drain_that_holds_a_node_is_deleted_by_its_user_only() {
    let server = start().await;
    user(&server, "jane").create_of(DRAINS, &drain("d", &json!({}))).await.ok();
    let mut held = finish(&server, "d").await;
    held["status"]["nodes"] = json!([{"name": "node-a", "phase": "Drained", "cordoned": "Ours"}]);
    server.controller().in_namespace("").update_at("nodeevacuations/d/status", &held).await.ok();
    let joe = user(&server, "joe");
    joe.delete_at(DRAIN).await.refused(403, "Forbidden").saying("holds nodes");
    user(&server, "jane").delete_at(DRAIN).await.ok();
}

#[tokio::test]
async fn a_finalizer_that_the_creator_names_is_not_added_twice() {
    let server = start().await;
    let mut object = drain("d", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/mine", FINALIZER]);
    let created = user(&server, "jane").create_of(DRAINS, &object).await.ok();
    assert_eq!(created["metadata"]["finalizers"], json!(["example.com/mine", FINALIZER]));
}

#[tokio::test]
async fn dangerous_requests_are_warned_of_when_they_are_made() {
    let server = start().await;
    server.cluster.grant("jane", "delete pods");
    let jane = user(&server, "jane");
    let quiet = jane.create_of(DRAINS, &drain("quiet", &json!({}))).await;
    assert!(quiet.warnings.is_empty(), "{:?}", quiet.warnings);
    let spec = json!({
        "requester": {"deadlineSeconds": 0, "atDeadline": "Delete", "onRefusal": "Override"},
        "pods": {"emptyDirData": "Delete"},
    });
    let created = jane.create_of(DRAINS, &drain("d", &spec)).await;
    let words = ["deadlineSeconds", "PodDisruptionBudgets", "responder refused", "emptyDir volumes"];
    assert_eq!(created.warnings.len(), words.len(), "{:?}", created.warnings);
    for (warning, word) in created.warnings.iter().zip(words) {
        assert!(warning.contains(word), "{word}: {warning}");
    }
    let unchanged = jane.merge_patch_at(DRAIN, json!({"spec": {"cordon": "Never"}})).await;
    assert!(unchanged.warnings.is_empty(), "{:?}", unchanged.warnings);
}

#[tokio::test]
async fn users_who_fill_the_limit_leave_room_for_those_who_may_override_every_drain() {
    let server = start_with(LimitOptions { max_objects_per_namespace: 4, ..LimitOptions::default() }).await;
    for name in ["a", "b", "c", "d"] {
        server.cluster.grant(name, "patch nodes");
        server.cluster.grant(name, "create pods/eviction");
    }
    for name in ["a", "b", "c"] {
        user(&server, name).create_of(DRAINS, &drain(name, &json!({}))).await.ok();
    }
    let refused =
        user(&server, "d").create_of(DRAINS, &drain("d", &json!({}))).await.refused(403, "Forbidden");
    refused.cause("NamespaceObjectLimit");
    server.cluster.grant("joe", "override nodeevacuations");
    user(&server, "joe").create_of(DRAINS, &drain("d", &json!({}))).await.ok();
}

#[tokio::test]
async fn a_user_who_takes_all_drains_that_it_can_gets_a_quarter_and_keeps_nobody_from_draining() {
    let server = start_with(LimitOptions { max_objects_per_namespace: 8, ..LimitOptions::default() }).await;
    let jane = user(&server, "jane");
    for name in ["a", "b"] {
        jane.create_of(DRAINS, &drain(name, &json!({}))).await.ok();
    }
    let refused = jane.create_of(DRAINS, &drain("c", &json!({}))).await.refused(403, "Forbidden");
    refused.saying("objects of user \"jane\": requested 1, used 2, limit 2").cause("UserObjectLimit");
    let joe = user(&server, "joe");
    joe.create_of(DRAINS, &drain("c", &json!({}))).await.ok();
    joe.merge_patch_at(&format!("{DRAINS}/c"), json!({"spec": {"paused": true}})).await.ok();

    jane.delete_at(&format!("{DRAINS}/a")).await;
    server.cluster.grant("jane", "override nodeevacuations");
    jane.create_of(DRAINS, &drain("d", &json!({}))).await.ok();
}

#[tokio::test]
async fn only_a_drain_whose_time_to_live_is_over_is_deleted_by_anyone_who_may_delete() {
    let server = start().await;
    let (jane, controller) = (user(&server, "jane"), server.controller().in_namespace(""));
    let (past, future) = ("2026-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z");
    for (name, ttl, end, allowed) in [
        ("over", json!(0), Some(past), true),
        ("later", json!(0), Some(future), false),
        ("without", json!(null), Some(past), false),
        ("running", json!(0), None, false),
    ] {
        jane.create_of(DRAINS, &drain(name, &json!({"ttlSecondsAfterFinished": ttl}))).await.ok();
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Drained", "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions = end.map(|_| [condition("Finished"), condition("Drained")]);
        let nodes = json!([{"name": "node-a", "cordoned": "Ours"}]);
        let status = json!({"nodes": nodes, "conditions": conditions, "finishTime": end});
        let path = format!("{DRAINS}/{name}/status");
        controller.merge_patch_at(&path, json!({"status": status})).await.ok();
        let deleted = user(&server, "joe").delete_at(&format!("{DRAINS}/{name}")).await;
        if allowed {
            deleted.ok();
        } else {
            deleted.refused(403, "Forbidden").cause("NodeEvacuationOfAnother");
        }
    }
}

#[tokio::test]
async fn a_dry_run_returns_the_plan_and_stores_nothing() {
    let server = start().await;
    let jane = user(&server, "jane");
    let object = drain("d", &json!({"pods": {"unmanaged": "Evict"}}));
    let planned = jane.create_of(&format!("{DRAINS}?dryRun=All"), &object).await.ok();
    let plan = &planned["status"]["plan"];
    assert_eq!((&plan[0]["pod"], &plan[0]["act"]), (&json!("shop/db-0"), &json!("Ask")), "{planned}");
    assert_eq!(planned["status"]["message"], "plan: 1 asked, 0 deleted, 0 held back now");
    assert_eq!(planned["status"]["requester"]["user"], "jane");
    jane.get(DRAIN).await.refused(404, "NotFound");

    server.cluster.break_down(Some("pods"));
    let without = jane.create_of(&format!("{DRAINS}?dryRun=All"), &object).await.ok();
    assert_eq!(without["status"].get("verdict"), None);
    server.cluster.break_down(None);
    let stored = jane.create_of(DRAINS, &object).await.ok();
    assert_eq!(stored["status"].get("plan"), None, "only a dry run has a plan");
}
