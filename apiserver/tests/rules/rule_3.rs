//! Rule 3: each entry is recorded with who made it, and only that user, or one with the verb override,
//! changes it.

use serde_json::{Value, json};

use crate::harness::{Change, Server, evacuation, join, leave, requester, responder};

const JANES: &str = "jane.example.com/a";
const JOES: &str = "joe.example.com/b";

/// An Evacuation `e` with an entry of jane's and one of joe's.
async fn of_two(server: &Server) -> Value {
    server.evacuation("e", json!({})).await;
    server.user("joe").edit("e", |object| join(object, requester(JOES, json!({})))).await.ok()
}

#[tokio::test]
async fn rule_3_the_server_records_who_made_each_entry() {
    let server = Server::start().await;
    let mut object = evacuation("e", "db-0", &[requester(JANES, json!({}))]);
    object["status"] =
        json!({"requesters": [{"name": JANES, "user": "root", "time": "2020-01-01T00:00:00Z"}]});
    let created = server.user("jane").create(&object).await.ok();
    let recorded = &created["status"]["requesters"];
    assert_eq!(recorded[0]["name"], JANES);
    assert_eq!(recorded[0]["user"], "jane");
    assert!(recorded[0]["groups"].as_array().unwrap().contains(&json!("people")), "{recorded}");
    assert!(recorded[0]["time"].as_str().unwrap() > "2021", "{recorded}");

    let lying = |object: &mut Value| {
        join(object, requester(JOES, json!({})));
        object["status"]["requesters"] =
            json!([{"name": JOES, "user": "jane", "time": "2020-01-01T00:00:00Z"}]);
    };
    let joined = server.user("joe").edit("e", lying).await.ok();
    let users: Vec<_> =
        joined["status"]["requesters"].as_array().unwrap().iter().map(|r| &r["user"]).collect();
    assert_eq!(users, ["jane", "joe"]);
}

/// Names that move no other pod of a PodGroup, and wait for no budget, belong to the gateway and the
/// controller.
///
/// # Attack
///
/// - Attacker: a user who may evict one member of a gang alone
/// - Act: asks for it with an entry that has the name of a workload controller, whose deletions move no other
/// member
/// - Promise: 3, 11
#[tokio::test]
async fn rule_3_an_entry_with_a_reserved_name_needs_the_verb_override() {
    let server = Server::start().await;
    let joe = server.user("joe");
    for name in ["gateway.evacuation.dev/job", "refresh.evacuation.dev/crash-loop"] {
        let object = evacuation("e", "db-0", &[requester(name, json!({}))]);
        joe.create(&object).await.refused(403, "Forbidden").cause("ReservedName");
    }
    joe.create(&evacuation("e", "db-0", &[requester("a.b/own", json!({}))])).await.ok();
    let joins = |object: &mut Value| {
        let entries = object["spec"]["requesters"].as_array_mut().unwrap();
        entries.push(requester("gateway.evacuation.dev/job", json!({})));
    };
    joe.edit("e", joins).await.refused(403, "Forbidden").cause("ReservedName");
}

/// The server records the user of each entry.
///
/// # Attack
///
/// - Attacker: a user who may update Evacuations
/// - Act: softens or drops the entry of another user
/// - Promise: 3
#[tokio::test]
async fn rule_3_nobody_changes_or_drops_the_entry_of_another() {
    let server = Server::start().await;
    of_two(&server).await;
    let joe = server.user("joe");
    let changes: [(&str, Change); 4] = [
        ("dropped", |object| leave(object, JANES)),
        ("written over by a stale copy", |object| {
            object["spec"]["requesters"] = json!([requester(JOES, json!({"onRefusal": "GiveUp"}))]);
        }),
        ("changed", |object| {
            object["spec"]["requesters"][0]["onRefusal"] = json!("GiveUp");
        }),
        ("emptied", |object| object["spec"]["requesters"] = json!([])),
    ];
    for (what, change) in changes {
        let refusal = joe.edit("e", change).await.refused(403, "Forbidden");
        assert!(refusal.0["message"].as_str().unwrap().contains(JANES), "{what}: {:#}", refusal.0);
        refusal.saying("jane").cause("RequesterOfAnother");
    }
    joe.merge_patch("e", json!({"spec": {"requesters": []}})).await.refused(403, "Forbidden").saying(JANES);
    let requesters = joe.get("evacuations/e").await.ok()["spec"]["requesters"].clone();
    assert_eq!(requesters.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn rule_3_the_verb_override_lifts_that() {
    let server = Server::start().await;
    of_two(&server).await;
    server.cluster.grant("root", "override evacuations e");
    let left = server.user("root").edit("e", |object| leave(object, JANES)).await.ok();
    assert_eq!(left["spec"]["requesters"].as_array().unwrap().len(), 1);
    assert_eq!(left["spec"]["requesters"][0]["owner"], "joe");
}

#[tokio::test]
async fn rule_3_override_is_asked_for_only_where_it_is_needed() {
    let server = Server::start().await;
    of_two(&server).await;
    server.cluster.asked();
    server.user("joe").edit("e", |object| leave(object, JOES)).await.ok();
    assert_eq!(server.cluster.asked(), [""; 0]);
    server.user("joe").edit("e", |object| leave(object, JANES)).await.refused(403, "Forbidden");
    assert_eq!(server.cluster.asked(), ["override evacuations e"]);
}

#[tokio::test]
async fn rule_3_when_the_last_entry_leaves_the_evacuation_is_canceled() {
    let server = Server::start().await;
    of_two(&server).await;
    server.begin("e", &[responder("self", 10_000, "Active")]).await;
    let one_left = server.user("jane").edit("e", |object| leave(object, JANES)).await.ok();
    assert_eq!(one_left["status"]["responders"][0]["state"], "Active");
    let canceled = server.user("joe").edit("e", |object| leave(object, JOES)).await.ok();
    assert_eq!(canceled["status"]["responders"][0]["state"], "Canceled");
    let failed = condition(&canceled, "Failed");
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("Canceled")));
    assert_eq!(condition(&canceled, "Finished")["status"], "True");
    assert_eq!(canceled["spec"]["requesters"], json!([]));
}

#[tokio::test]
async fn rule_3_after_a_cancellation_whoever_had_asked_stays_visible_and_the_generation_is_observed() {
    let server = Server::start().await;
    of_two(&server).await;
    server.user("jane").edit("e", |object| leave(object, JANES)).await.ok();
    let canceled = server.user("joe").edit("e", |object| leave(object, JOES)).await.ok();
    let recorded = canceled["status"]["requesters"].as_array().unwrap();
    let users: Vec<_> = recorded.iter().map(|r| r["user"].as_str().unwrap()).collect();
    assert_eq!(users, ["jane", "joe"]);
    assert!(recorded.iter().all(|r| r["leftTime"].is_string()), "{recorded:#?}");
    assert_eq!(canceled["status"]["observedGeneration"], canceled["metadata"]["generation"]);
    let later =
        server.user("joe").edit("e", |object| object["spec"]["ttlSecondsAfterFinished"] = json!(7200)).await;
    let later = later.ok();
    assert_eq!(later["status"]["observedGeneration"], later["metadata"]["generation"]);
    assert_eq!(later["metadata"]["generation"], 5);
}

#[tokio::test]
async fn rule_3_an_entry_with_the_name_of_another_users_entry_is_a_separate_one() {
    let server = Server::start().await;
    let drains = "drain.evacuation.dev/node-a_jane";
    // The tenant joe takes the name of jane's drain.
    let mut object = evacuation("e", "db-0", &[requester(drains, json!({"onRefusal": "GiveUp"}))]);
    object["spec"]["requesters"][0]["owner"] = json!("jane");
    server.user("joe").create(&object).await.refused(403, "Forbidden").cause("RequesterOfAnother");
    object["spec"]["requesters"][0]["owner"] = json!("");
    server.user("joe").create(&object).await.ok();
    let janes = server.user("jane");
    let joined =
        janes.edit("e", |object| join(object, requester(drains, json!({"onRefusal": "Override"})))).await;
    let joined = joined.ok();
    let owners: Vec<_> = joined["spec"]["requesters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["owner"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["joe", "jane"]);
    assert_eq!(joined["status"]["policy"]["onRefusal"], "Override");
    let left = janes
        .edit("e", |object| {
            object["spec"]["requesters"].as_array_mut().unwrap().retain(|entry| entry["owner"] != "jane");
        })
        .await;
    assert_eq!(left.ok()["spec"]["requesters"][0]["owner"], "joe");
}

#[tokio::test]
async fn rule_3_without_a_resource_version_a_conflict_names_the_entries_that_would_go() {
    let server = Server::start().await;
    of_two(&server).await;
    server.cluster.grant("root", "override evacuations");
    // The file that jane applied, applied again by an admin, as kubectl does: a merge patch.
    let applied = json!({"spec": {"requesters": [requester(JANES, json!({}))]}});
    let again = server.user("root").merge_patch("e", applied.clone()).await.refused(409, "Conflict");
    again.saying(JOES).saying(JANES).because("ResourceVersionRequired", "metadata.resourceVersion");
    // Not even jane's own goes, if somebody may have changed it in the meantime.
    let empty = json!({"spec": {"requesters": []}});
    let mut jane_only = evacuation("own", "db-1", &[requester(JANES, json!({}))]);
    server.cluster.add_pod("db-1", "u-1");
    let created = server.user("jane").create(&jane_only).await.ok();
    server
        .user("jane")
        .merge_patch("own", empty.clone())
        .await
        .refused(409, "Conflict")
        .cause("ResourceVersionRequired");
    jane_only["spec"]["requesters"] = json!([]);
    jane_only["spec"]["target"] = created["spec"]["target"].clone();
    server.user("jane").update(&jane_only).await.refused(409, "Conflict").cause("ResourceVersionRequired");
    let remove = json!([{"op": "remove", "path": "/spec/requesters/0"}]);
    server
        .user("jane")
        .json_patch("own", remove)
        .await
        .refused(409, "Conflict")
        .cause("ResourceVersionRequired");
    let version = &created["metadata"]["resourceVersion"];
    let guarded = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "remove", "path": "/spec/requesters/0"},
    ]);
    server.user("jane").json_patch("own", guarded).await.ok();
    // What removes nothing needs none.
    let mut joining = applied;
    joining["spec"]["requesters"] =
        json!([{"owner": "jane", "name": JANES}, {"owner": "joe", "name": JOES, "reason": "Again"}]);
    server.user("joe").merge_patch("e", joining).await.ok();
}

#[tokio::test]
async fn rule_3_a_merge_patch_with_the_resource_version_withdraws() {
    let server = Server::start().await;
    let created = server.evacuation("e", json!({})).await;
    let version = &created["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"requesters": []}});
    let canceled = server.user("jane").merge_patch("e", patch.clone()).await.ok();
    assert_eq!(condition(&canceled, "Failed")["reason"], "Canceled");
    server.user("jane").merge_patch("e", patch).await.refused(409, "Conflict").saying("has been modified");
}

#[tokio::test]
async fn rule_3_a_user_without_an_entry_cannot_make_the_record_vanish() {
    let server = Server::start().await;
    of_two(&server).await;
    let ttl = |seconds: i64| json!({"spec": {"ttlSecondsAfterFinished": seconds}});
    for seconds in [0, 100_000] {
        let refused = server.user("mallory").merge_patch("e", ttl(seconds)).await.refused(403, "Forbidden");
        refused.cause("RetentionOfOthers");
    }
    server.user("joe").merge_patch("e", ttl(299)).await.refused(403, "Forbidden").saying("300");
    server.user("joe").merge_patch("e", ttl(300)).await.ok();
    server.cluster.grant("root", "override evacuations");
    server.user("root").merge_patch("e", ttl(0)).await.ok();
}

#[tokio::test]
async fn rule_3_one_that_has_ended_cannot_be_joined() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    server.user("jane").edit("e", |object| leave(object, JANES)).await.ok();
    let joining = server.user("joe").edit("e", |object| join(object, requester(JOES, json!({})))).await;
    joining.refused(409, "Conflict").saying("Canceled").cause("EvacuationFinished");
}

#[tokio::test]
async fn rule_3_a_join_against_an_older_version_is_a_conflict() {
    let server = Server::start().await;
    let mut old = server.evacuation("e", json!({})).await;
    server.user("joe").edit("e", |object| join(object, requester(JOES, json!({})))).await.ok();
    join(&mut old, requester("joe.example.com/c", json!({})));
    let refusal = server.user("joe").update(&old).await.refused(409, "Conflict");
    refusal.saying("the object has been modified");
}

#[tokio::test]
async fn rule_3_deleting_an_active_one_with_entries_of_others_needs_override() {
    let server = Server::start().await;
    of_two(&server).await;
    server.user("joe").delete("e").await.refused(403, "Forbidden").saying(JANES).cause("RequesterOfAnother");
    server.cluster.grant("root", "override evacuations");
    server.user("root").delete("e").await.ok();
    server.user("root").get("evacuations/e").await.refused(404, "NotFound");
}

#[tokio::test]
async fn rule_3_ones_own_can_be_deleted() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    server.user("jane").delete("e").await.ok();
}

#[tokio::test]
async fn rule_3_a_terminating_namespace_is_emptied_whoever_asked() {
    let server = Server::start().await;
    of_two(&server).await;
    server.begin("e", &[responder("self", 10_000, "Active")]).await;
    server.cluster.terminate_namespace("shop");
    let namespace_controller = server.service_account("kube-system", "namespace-controller");
    namespace_controller.delete("e").await.ok();
    // No finalizer holds it: the responder's pod goes with the namespace.
    namespace_controller.get("evacuations/e").await.refused(404, "NotFound");
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}
