//! Rule 4: an answer is accepted only for the active responder, and only from whoever is that responder.

use serde_json::{Value, json};

use crate::{
    cluster::SHOP,
    harness::{Server, responder},
};

const FAILOVER: &str = "db.acme.io/failover";

/// An Evacuation `e` of db-0 whose first responder was asked.
async fn asked(server: &Server, responders: &[Value]) {
    server.evacuation("e", json!({})).await;
    server.begin("e", responders).await;
}

fn with_endpoint(name: &str) -> Value {
    let mut responder = responder(name, 10_000, "Active");
    responder["http"] = json!({"port": 8080});
    responder
}

fn accept_as(name: &str) -> Value {
    json!({"responder": name, "answer": "Accept"})
}

#[tokio::test]
async fn rule_4_the_target_answers_for_itself() {
    for resource in ["evacuations", "selfevacuations"] {
        let server = Server::start().await;
        asked(&server, &[responder("self", 10_000, "Active")]).await;
        let spec = json!({"answer": "Delay", "delaySeconds": 30, "reason": "Migrating"});
        let reply = server.target().respond_to(resource, "e", spec).await.ok();
        assert_eq!(reply["status"]["grantedSeconds"], 30, "{resource}: {reply:#}");
        assert_eq!(reply["kind"], "EvacuationResponse");
        let recorded = server.user("jane").get("evacuations/e").await.ok()["status"]["responders"][0].clone();
        assert_eq!((&recorded["answer"], &recorded["reason"]), (&json!("Delay"), &json!("Migrating")));
        assert_eq!(recorded["delayUntil"], reply["status"]["delayUntil"]);
    }
}

/// `self` is proved by the bound token of the pod.
///
/// # Attack
///
/// - Attacker: a user with every right but the pod's token
/// - Act: answers as `self` for another pod
/// - Promise: 4, 12
#[tokio::test]
async fn rule_4_nobody_else_answers_as_self() {
    let server = Server::start().await;
    server.cluster.add_pod("db-1", "u-1");
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    server.cluster.grant("jane", "respond responders");
    let cases = [
        (
            "another pod of the same service account",
            server.pod(SHOP, "db", "db-1", "u-1"),
            "only the target may, which is pod \"db-0\"",
        ),
        (
            "a pod of the same name that came before",
            server.pod(SHOP, "db", "db-0", "u-old"),
            "only the target may",
        ),
        (
            "the pod of another service account",
            server.pod(SHOP, "web", "db-0", "u-0"),
            "runs as the service account \"db\"",
        ),
        (
            "a token that is bound to no pod",
            server.service_account(SHOP, "db"),
            "use a token bound to the target",
        ),
        ("a person, who may respond by any name", server.user("jane"), "use a token bound to the target"),
    ];
    for (who, caller, words) in cases {
        let refusal = caller.respond("e", json!({"answer": "Accept"})).await.refused(403, "Forbidden");
        assert!(refusal.0["message"].as_str().unwrap().contains(words), "{who}: {:#}", refusal.0);
    }
    let elsewhere = server.pod("mall", "db", "db-0", "u-0").in_namespace(SHOP);
    elsewhere.respond("e", json!({"answer": "Accept"})).await.refused(403, "Forbidden");
    let status = server.user("jane").get("evacuations/e").await.ok()["status"].clone();
    assert_eq!(status["responders"][0].get("answer"), None);
}

/// The token names the UID of its pod.
///
/// # Attack
///
/// - Attacker: a pod that has the name of an earlier target
/// - Act: answers for the earlier one
/// - Promise: 4, 10
#[tokio::test]
async fn rule_4_a_target_that_was_replaced_no_longer_answers() {
    let server = Server::start().await;
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    server.cluster.add_pod("db-0", "u-new");
    server
        .target()
        .respond("e", json!({"answer": "Accept"}))
        .await
        .refused(403, "Forbidden")
        .saying("is gone");
    let new = server.pod(SHOP, "db", "db-0", "u-new");
    new.respond("e", json!({"answer": "Accept"})).await.refused(403, "Forbidden");
    server.cluster.remove_pod("db-0");
    server
        .target()
        .respond("e", json!({"answer": "Accept"}))
        .await
        .refused(403, "Forbidden")
        .saying("is gone");
}

#[tokio::test]
async fn rule_4_a_named_responder_needs_the_verb_respond_on_its_name_or_domain() {
    let server = Server::start().await;
    asked(&server, &[responder(FAILOVER, 10_000, "Active")]).await;
    server.cluster.grant("by-name", "respond responders db.acme.io/failover");
    server.cluster.grant("by-domain", "respond responders db.acme.io/*");
    server.cluster.grant("by-other-domain", "respond responders web.acme.io/*");
    server.cluster.grant("by-other-name", "respond responders db.acme.io/backup");
    let delay = json!({"responder": FAILOVER, "answer": "Delay", "delaySeconds": 5});
    for (user, may) in [
        ("by-name", true),
        ("by-domain", true),
        ("by-other-domain", false),
        ("by-other-name", false),
        ("jane", false),
    ] {
        let reply = server.user(user).respond("e", delay.clone()).await;
        if may {
            reply.ok();
        } else {
            reply.refused(403, "Forbidden").saying(FAILOVER).saying("verb respond");
        }
    }
    server.target().respond("e", delay).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn rule_4_only_the_active_responder_answers() {
    let server = Server::start().await;
    asked(&server, &[responder(FAILOVER, 20_000, "Active"), responder("self", 10_000, "Inactive")]).await;
    let refusal = server.target().respond("e", json!({"answer": "Accept"})).await.refused(409, "Conflict");
    refusal.saying("Inactive").cause("ResponderNotActive");

    server.cluster.grant("op", "respond responders");
    let refusal =
        server.user("op").respond("e", accept_as("x.acme.io/unknown")).await.refused(422, "Invalid");
    refusal.because("NoSuchResponder", "spec.responder");
    server.user("op").respond("e", accept_as(FAILOVER)).await.ok();
    let late = json!({"responder": FAILOVER, "answer": "Refuse"});
    server.user("op").respond("e", late).await.refused(409, "Conflict").cause("AlreadyAccepted");
}

#[tokio::test]
async fn rule_4_after_the_end_nobody_answers() {
    let server = Server::start().await;
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    server.user("jane").edit("e", |object| object["spec"]["requesters"] = json!([])).await.ok();
    let refusal = server.target().respond("e", json!({"answer": "Accept"})).await.refused(409, "Conflict");
    refusal.cause("EvacuationFinished");
    server.target().respond("gone", json!({"answer": "Accept"})).await.refused(404, "NotFound");
}

#[tokio::test]
async fn rule_4_an_answer_for_another_evacuation_or_pod_is_refused() {
    let server = Server::start().await;
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    for (field, cause) in [("evacuationUid", "WrongEvacuation"), ("podUid", "WrongPod")] {
        let spec = json!({"answer": "Accept", field: "u-of-another"});
        let refusal = server.target().respond("e", spec).await.refused(409, "Conflict");
        refusal.saying("u-of-another").because(cause, &format!("spec.{field}"));
    }
}

#[tokio::test]
async fn rule_4_what_an_endpoint_replied_is_relayed_under_the_verb_relay() {
    let server = Server::start().await;
    asked(&server, &[with_endpoint("self")]).await;
    let uid = server.user("jane").get("evacuations/e").await.ok()["metadata"]["uid"].clone();
    let reply = json!({"answer": "Delay", "delaySeconds": 5, "evacuationUid": uid, "podUid": "u-0"});
    let controller = server.controller();
    controller.respond("e", reply.clone()).await.refused(403, "Forbidden");
    server.cluster.grant("system:serviceaccount:evacuation-system:evacuation-controller", "relay responders");

    let refusal = controller.respond("e", json!({"answer": "Accept"})).await.refused(422, "Invalid");
    refusal.because("FieldValueRequired", "spec.evacuationUid");
    controller.respond("e", reply.clone()).await.ok();
    // The controller runs in a pod of its own.
    let in_pod = server.pod("evacuation-system", "evacuation-controller", "c-0", "u-c").in_namespace(SHOP);
    in_pod.respond("e", reply).await.ok();
}

#[tokio::test]
async fn rule_4_what_a_service_replied_is_relayed_for_the_name_that_it_is_registered_for() {
    let server = Server::start().await;
    let mut failover = responder(FAILOVER, 20_000, "Active");
    failover["service"] = json!({"name": "failover", "port": 443, "https": {"caBundle": "AAAA"}});
    asked(&server, &[failover, responder("self", 10_000, "Inactive")]).await;
    server.cluster.grant("system:serviceaccount:evacuation-system:evacuation-controller", "relay responders");
    let uid = server.user("jane").get("evacuations/e").await.ok()["metadata"]["uid"].clone();
    let reply = json!({"responder": FAILOVER, "answer": "Delay", "delaySeconds": 5, "evacuationUid": uid, "podUid": "u-0"});
    server.controller().respond("e", reply).await.ok();
}

#[tokio::test]
async fn rule_4_nothing_is_relayed_for_a_responder_without_an_endpoint() {
    let server = Server::start().await;
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    server.cluster.grant("system:serviceaccount:evacuation-system:evacuation-controller", "relay responders");
    let uid = server.user("jane").get("evacuations/e").await.ok()["metadata"]["uid"].clone();
    let reply = json!({"answer": "Accept", "evacuationUid": uid, "podUid": "u-0"});
    server.controller().respond("e", reply).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn rule_4_a_pod_sees_the_evacuations_of_itself_and_nothing_else() {
    let server = Server::start().await;
    server.cluster.add_pod("db-1", "u-1");
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    let seen = server.target().get("selfevacuations").await.ok();
    assert_eq!(seen["kind"], "SelfEvacuationList");
    assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    assert_eq!(seen["items"][0]["metadata"]["name"], "e");
    assert_eq!(seen["items"][0]["status"].get("requesters"), None, "users are not shown to apps");
    assert!(!seen.to_string().contains("\"owner\""), "nor owners: {seen:#}");
    assert_eq!(server.target().get("selfevacuations/e").await.ok()["kind"], "SelfEvacuation");

    let other = server.pod(SHOP, "db", "db-1", "u-1");
    assert_eq!(other.get("selfevacuations").await.ok()["items"], json!([]));
    other.get("selfevacuations/e").await.refused(404, "NotFound");
    let across = server.pod("mall", "db", "db-0", "u-9").in_namespace("");
    assert_eq!(across.get("selfevacuations").await.ok()["items"], json!([]));

    server
        .user("jane")
        .get("selfevacuations")
        .await
        .refused(403, "Forbidden")
        .saying("use a token bound to a pod");
    let elsewhere = server.pod("mall", "db", "db-0", "u-0").in_namespace(SHOP);
    elsewhere.get("selfevacuations").await.refused(403, "Forbidden").saying("\"mall\"");
}

#[tokio::test]
async fn rule_4_through_selfevacuations_only_the_target_answers_and_only_as_self() {
    let server = Server::start().await;
    server.cluster.add_pod("db-1", "u-1");
    asked(&server, &[with_endpoint("self")]).await;
    let account = "system:serviceaccount:shop:db";
    server.cluster.grant(account, "respond responders");
    server.cluster.grant(account, "relay responders");
    let accept = json!({"answer": "Accept"});
    let other = server.pod(SHOP, "db", "db-1", "u-1");
    let refusal = other.respond_to("selfevacuations", "e", accept.clone()).await.refused(403, "Forbidden");
    refusal.saying("\"db-0\"");
    let named = server.target().respond_to("selfevacuations", "e", accept_as(FAILOVER)).await;
    named.refused(403, "Forbidden").saying(FAILOVER);
    let elsewhere = server.pod("mall", "db", "db-0", "u-0").in_namespace(SHOP);
    let refusal =
        elsewhere.respond_to("selfevacuations", "e", accept.clone()).await.refused(403, "Forbidden");
    assert!(
        !refusal.0["message"].as_str().unwrap().contains("target"),
        "nothing is told of other namespaces"
    );
    server.target().respond_to("selfevacuations", "e", accept).await.ok();
}

#[tokio::test]
async fn rule_4_an_answer_that_says_nothing_or_two_things_is_invalid() {
    let server = Server::start().await;
    asked(&server, &[responder("self", 10_000, "Active")]).await;
    for (spec, field) in [
        (json!({}), "spec.answer"),
        (json!({"answer": "Delay"}), "spec.delaySeconds"),
        (json!({"answer": "Delay", "delaySeconds": -1}), "spec.delaySeconds"),
        (json!({"answer": "Accept", "retryAfterSeconds": 5}), "spec.retryAfterSeconds"),
    ] {
        let refusal = server.target().respond("e", spec.clone()).await.refused(422, "Invalid");
        let causes = &refusal.0["details"]["causes"];
        assert!(causes.as_array().unwrap().iter().any(|cause| cause["field"] == field), "{spec}: {causes:#}");
    }
}
