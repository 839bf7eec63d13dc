//! Rule 8: the limits on the objects of a namespace. The shares of requests are tested in `machinery-server`.

use evacuation_apiserver::LimitOptions;
use serde_json::json;

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
