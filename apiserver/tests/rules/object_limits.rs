//! Rule 8: the limits on the objects of a namespace. The shares of requests are tested in `machinery-server`.

use chrono::{TimeDelta, Utc};
use evacuation_apiserver::LimitOptions;
use serde_json::{Value, json};

use crate::{
    harness::{Server, evacuation, requester},
    reply::Reply,
};

/// Asks for the pod db-N by the Evacuation e-N.
async fn ask(server: &Server, user: &str, number: usize) -> Reply {
    let entry = requester(&format!("{user}.example.com/a"), json!({}));
    server.user(user).create(&evacuation(&format!("e-{number}"), &format!("db-{number}"), &[entry])).await
}

#[tokio::test]
async fn rule_8_a_tenant_that_fills_its_namespace_does_not_exclude_those_who_act_for_all_namespaces() {
    let limits = LimitOptions { max_objects_per_namespace: 4, ..LimitOptions::default() };
    let server = Server::with_limits(limits).await;
    for number in 1..5 {
        server.cluster.add_pod(&format!("db-{number}"), &format!("u-{number}"));
    }
    for number in 0..3 {
        ask(&server, "jane", number).await.ok();
    }
    let refused = ask(&server, "jane", 3).await.refused(403, "Forbidden");
    refused.saying("exceeded the limit on objects of the namespace").cause("NamespaceObjectLimit");

    server.cluster.grant("drainer", "create pods/eviction");
    server.cluster.grant("drainer", "create evacuations");
    ask(&server, "drainer", 3).await.ok();
    ask(&server, "drainer", 4).await.refused(403, "Forbidden").saying("the reserve is used up");

    server.user("jane").delete("e-0").await.ok();
    server.user("jane").delete("e-1").await.ok();
    ask(&server, "jane", 0).await.ok();
}

#[tokio::test]
async fn a_namespace_has_fewer_registrations_than_other_objects_because_each_creation_looks_at_all() {
    let limits = LimitOptions { max_responders_per_namespace: 4, ..LimitOptions::default() };
    let server = Server::with_limits(limits).await;
    let register = async |number: usize| {
        let object = json!({
            "apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponder",
            "metadata": {"name": format!("r-{number}")},
            "spec": {"name": format!("jane.example.com/r-{number}"), "selector": {}},
        });
        server.user("jane").create_of("evacuationresponders", &object).await
    };
    for number in 0..3 {
        register(number).await.ok();
    }
    let refused = register(3).await.refused(403, "Forbidden");
    refused.saying("requested 1, used 3, limit 3").cause("NamespaceObjectLimit");
    for number in 0..4 {
        server.cluster.add_pod(&format!("db-{number}"), &format!("u-{number}"));
        ask(&server, "jane", number).await.ok();
    }
}

/// The gateway writes entries in the names of others. Only the owners' rights open the reserve.
#[tokio::test]
async fn rule_8_the_reserve_goes_by_the_owner_of_an_entry_and_not_by_its_writer() {
    let limits = LimitOptions { max_objects_per_namespace: 8, ..LimitOptions::default() };
    let server = Server::with_limits(limits).await;
    for number in 0..9 {
        server.cluster.add_pod(&format!("db-{number}"), &format!("u-{number}"));
    }
    for right in ["create pods/eviction", "create evacuations", "override evacuations"] {
        server.cluster.grant("gateway", right);
    }
    let ask = async |owner: &str, groups: &[&str], number: usize| {
        let entry = requester("gateway.evacuation.dev/other", json!({"owner": owner}));
        let mut wanted = evacuation(&format!("e-{number}"), &format!("db-{number}"), &[entry]);
        let groups = json!({"owner": owner, "groups": groups}).to_string();
        wanted["metadata"]["annotations"] = json!({"evacuation.dev/owner-groups": groups});
        server.user("gateway").create(&wanted).await
    };
    for number in 0..6 {
        ask("tenant", &[], number).await.ok();
    }
    ask("tenant", &["people"], 6).await.refused(403, "Forbidden").cause("NamespaceObjectLimit");
    server.cluster.grant("drainer", "create pods/eviction");
    ask("drainer", &[], 6).await.refused(403, "Forbidden").saying("used 6, limit 6");
    server.cluster.grant("drainer", "patch nodes");
    ask("drainer", &[], 6).await.ok();
    server.user("gateway").delete("e-6").await.ok();

    // Groups count when a holder of `override` declares them for the owner of this very entry.
    server.cluster.grant("admins", "create evacuations");
    ask("tenant", &["admins"], 6).await.ok();
    server.user("gateway").delete("e-6").await.ok();
    let entry = requester("jane.example.com/a", json!({}));
    let mut wanted = evacuation("e-6", "db-6", &[entry]);
    let groups = json!({"owner": "jane", "groups": ["admins"]}).to_string();
    wanted["metadata"]["annotations"] = json!({"evacuation.dev/owner-groups": groups});
    server.user("jane").create(&wanted).await.refused(403, "Forbidden").cause("NamespaceObjectLimit");
    // An entry for a crash loop is the doing of the pod.
    let entry = requester("refresh.evacuation.dev/crash-loop", json!({}));
    let wanted = evacuation("e-6", "db-6", &[entry]);
    server.user("gateway").create(&wanted).await.refused(403, "Forbidden").cause("NamespaceObjectLimit");
}

/// Ends an Evacuation, as long ago as that.
async fn end(server: &Server, name: &str, seconds_ago: i64) {
    let time = json!(evacuation_api::Timestamp(Utc::now() - TimeDelta::seconds(seconds_ago)));
    let finish = |object: &mut Value| {
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": time})
        };
        object["status"]["conditions"] =
            json!([condition("Failed", "Canceled"), condition("Finished", "Failed")]);
        object["status"]["finishTime"] = time.clone();
    };
    server.rewrite(&format!("evacuations/shop/{name}"), finish).await;
}

async fn names(server: &Server) -> Vec<String> {
    let list = server.user("jane").get("evacuations").await.ok();
    let names = list["items"].as_array().unwrap().iter().map(|object| &object["metadata"]["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: makes and cancels Evacuation after Evacuation, so that finished ones fill the namespace or the
///   history of others gives way
/// - Promise: 8
#[tokio::test]
async fn rule_8_a_finished_evacuation_gives_way_to_a_question_and_that_of_another_flow_stays() {
    let limits = LimitOptions { max_objects_per_namespace: 8, ..LimitOptions::default() };
    let server = Server::with_limits(limits).await;
    for number in 0..20 {
        server.cluster.add_pod(&format!("db-{number}"), &format!("u-{number}"));
    }
    ask(&server, "joe", 0).await.ok();
    end(&server, "e-0", 3000).await;
    ask(&server, "joe", 1).await.ok();
    for number in 2..6 {
        ask(&server, "jane", number).await.ok();
    }
    for number in 2..6 {
        end(&server, &format!("e-{number}"), 5).await;
    }
    // Responders learn of a cancellation before its record goes, and joe's does not go in its place.
    ask(&server, "jane", 6).await.refused(403, "Forbidden").cause("NamespaceObjectLimit");
    for number in 2..6 {
        end(&server, &format!("e-{number}"), 100 - i64::from(number)).await;
    }
    for number in 6..16 {
        ask(&server, "jane", number).await.ok();
        end(&server, &format!("e-{number}"), 31).await;
    }
    let left = names(&server).await;
    assert_eq!(left.len(), 6, "{left:?}");
    assert!(left.contains(&"e-0".to_owned()), "another flow's record stays, older as it is: {left:?}");
    assert!(left.contains(&"e-1".to_owned()), "one that has not ended stays: {left:?}");
    assert!(left.contains(&"e-15".to_owned()), "{left:?}");
}

/// # Attack
///
/// - Attacker: a tenant whose pods crash in a loop, under the account that asks itself
/// - Act: fills its namespace with the records of the crash loops, each of which is kept for a day and longer
/// - Promise: 8
#[tokio::test]
async fn rule_8_records_of_crash_loops_give_way_to_a_question_and_before_a_record_of_a_user() {
    let limits = LimitOptions { max_objects_per_namespace: 8, ..LimitOptions::default() };
    let server = Server::with_limits(limits).await;
    for number in 0..8 {
        server.cluster.add_pod(&format!("db-{number}"), &format!("u-{number}"));
    }
    for right in ["create pods/eviction", "create evacuations", "override evacuations"] {
        server.cluster.grant("controller", right);
    }
    ask(&server, "joe", 0).await.ok();
    end(&server, "e-0", 3000).await;
    for number in 1..6 {
        let entry = requester("refresh.evacuation.dev/crash-loop", json!({"owner": "joe"}));
        let mut wanted = evacuation(&format!("e-{number}"), &format!("db-{number}"), &[entry]);
        wanted["spec"]["ttlSecondsAfterFinished"] = json!(108_000);
        server.user("controller").create(&wanted).await.ok();
        end(&server, &format!("e-{number}"), 100 - i64::from(number)).await;
    }
    ask(&server, "jane", 6).await.ok();
    ask(&server, "jane", 7).await.ok();
    let left = names(&server).await;
    assert_eq!(left, ["e-0", "e-3", "e-4", "e-5", "e-6", "e-7"], "the oldest of the crash loops go");
}
