//! Settings of the cluster's administrator: default deadlines of requesters, and limits of responders.

use evacuation_api::DeadlineAction;
use evacuation_protocol::NegotiationSettings;
use serde_json::{Value, json};

use crate::{
    harness::{Server, evacuation, requester},
    node_evacuation::{drain, user},
};

const SETTINGS: NegotiationSettings = NegotiationSettings {
    default_deadline_seconds: Some(3600),
    default_at_deadline: Some(DeadlineAction::GiveUp),
    max_delay_seconds: Some(20),
    max_timeout_seconds: Some(30),
};

/// # Attack
///
/// - Attacker: a tenant whose annotation registers a responder with a delay and a timeout of days
/// - Act: holds up each request for its pods, although the administrator limits both
/// - Promise: 8
#[tokio::test]
async fn a_tenant_that_registers_more_than_the_limits_gets_the_limits() {
    let server = Server::with_settings(SETTINGS).await;
    server.cluster.register(&json!([{"name": "self", "timeoutSeconds": 31, "maxDelaySeconds": 86400}]));
    let entry = requester("jane.example.com/a", json!({}));
    let reply = server.user("jane").create(&evacuation("e", "db-0", &[entry])).await;
    let limits = "self timeoutSeconds is 30, not 31; self maxDelaySeconds is 20, not 86400";
    assert!(reply.warnings.iter().any(|warning| warning.contains(limits)), "{:?}", reply.warnings);
    let first = reply.ok()["status"]["responders"][0].take();
    assert_eq!((&first["timeoutSeconds"], &first["maxDelaySeconds"]), (&json!(30), &json!(20)));

    let answer = json!({"answer": "Delay", "delaySeconds": 60});
    let granted = server.target().respond("e", answer).await.ok()["status"].take();
    assert!(granted["grantedSeconds"].as_i64().unwrap() <= 20, "{granted}");
    assert!(granted["message"].as_str().unwrap().contains("60 s were asked for"), "{granted}");
}

#[tokio::test]
async fn an_evacuation_responder_beyond_the_limits_is_stored_with_a_warning() {
    let server = Server::with_settings(SETTINGS).await;
    let object = |more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": "db"}}, "name": "a.example.com/x"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponder",
               "metadata": {"generateName": "r-"}, "spec": spec})
    };
    let table = [
        (json!({}), (30, 20), None),
        (json!({"timeoutSeconds": 40, "maxDelaySeconds": 7}), (40, 7), Some("timeoutSeconds is 30, not 40")),
    ];
    for (more, (timeout, delay), warning) in table {
        let reply = server.user("jane").create_of("evacuationresponders", &object(more)).await;
        assert_eq!(reply.warnings.len(), usize::from(warning.is_some()), "{:?}", reply.warnings);
        assert!(warning.is_none_or(|warning| reply.warnings[0].contains(warning)), "{:?}", reply.warnings);
        let spec = reply.ok()["spec"].take();
        assert_eq!((&spec["timeoutSeconds"], &spec["maxDelaySeconds"]), (&json!(timeout), &json!(delay)));
    }
}

#[tokio::test]
async fn an_entry_without_a_deadline_gets_the_default_one_and_a_later_write_keeps_it() {
    let server = Server::with_settings(SETTINGS).await;
    let jane = server.user("jane");
    let object = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))]);
    let reply = jane.create(&object).await;
    assert!(reply.warnings.iter().any(|warning| warning.contains("gives no deadline")), "{reply:?}");
    let created = reply.ok();
    let entry = &created["spec"]["requesters"][0];
    assert_eq!(entry["atDeadline"], "GiveUp");
    let deadline = &created["status"]["policy"]["deadlines"][0]["time"];
    assert!(deadline.is_string() && entry["deadline"].is_string(), "{created:#}");

    // The same manifest again, and one without the deadline.
    let without = |object: &mut Value| {
        let entry = object["spec"]["requesters"][0].as_object_mut().unwrap();
        entry.retain(|field, _| field != "deadline" && field != "atDeadline");
        entry.insert("message".to_owned(), json!("again"));
    };
    let kept = jane.edit("e", without).await.ok();
    assert_eq!(kept["spec"]["requesters"][0]["deadline"], entry["deadline"]);
    assert_eq!(kept["spec"]["requesters"][0]["atDeadline"], "GiveUp");

    // Joined by another user, and by the controller for one.
    let joe = server.user("joe");
    let joined = joe.edit("e", |object| {
        let entry = requester("joe.example.com/b", json!({}));
        object["spec"]["requesters"].as_array_mut().unwrap().push(entry);
    });
    let joined = joined.await.ok();
    assert!(joined["spec"]["requesters"][1]["deadline"].is_string(), "{joined:#}");
    assert_eq!(joined["spec"]["requesters"][0]["deadline"], entry["deadline"]);
}

#[tokio::test]
async fn a_second_apply_does_not_move_the_default_deadline() {
    let server = Server::with_settings(SETTINGS).await;
    let jane = server.user("jane");
    let configuration = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))]);
    let first = jane.apply("e", "flux", &configuration).await.ok();
    assert!(first["spec"]["requesters"][0]["deadline"].is_string(), "{first:#}");
    let second = jane.apply("e", "flux", &configuration).await.ok();
    assert_eq!(second["spec"], first["spec"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn an_entry_that_is_written_for_another_user_stays_without_a_deadline() {
    let server = Server::with_settings(SETTINGS).await;
    let controller = server.controller();
    for act in ["create pods/eviction", "override evacuations"] {
        server.cluster.grant("system:serviceaccount:evacuation-system:evacuation-controller", act);
    }
    let entry = requester("drain.evacuation.dev/d", json!({"owner": "jane"}));
    let created = controller.create(&evacuation("e", "db-0", &[entry])).await.ok();
    assert!(created["spec"]["requesters"][0]["deadline"].is_null(), "{created:#}");
}

#[tokio::test]
async fn drains_and_rules_without_a_deadline_get_the_default_one_and_keep_it() {
    let server = Server::with_settings(SETTINGS).await;
    server.cluster.grant("jane", "patch nodes");
    let jane = user(&server, "jane");
    let rule = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule", "metadata": {"name": "spot"},
        "spec": {"marks": [{"taint": {"key": "example.com/spot"}}]},
    });
    let mut timed = rule.clone();
    timed["metadata"]["name"] = json!("timed");
    timed["spec"]["deadline"] = json!({"afterSeconds": 120});
    for (resource, object, requester) in [
        ("nodeevacuations", drain("d", &json!({})), "/spec/requester"),
        ("nodeevacuationrules", rule, "/spec/template/requester"),
    ] {
        let reply = jane.create_of(resource, &object).await;
        assert!(reply.warnings.iter().any(|said| said.contains("is 3600, then GiveUp")), "{reply:?}");
        let created = reply.ok();
        let (name, of) = (object["metadata"]["name"].as_str().unwrap(), created.pointer(requester).unwrap());
        assert_eq!((&of["deadlineSeconds"], &of["atDeadline"]), (&json!(3600), &json!("GiveUp")));
        let without = |object: &mut Value| {
            let of = object.pointer_mut(requester).unwrap().as_object_mut().unwrap();
            of.retain(|field, _| field != "deadlineSeconds" && field != "atDeadline");
        };
        let kept = jane.edit_at(&format!("{resource}/{name}"), without).await;
        assert!(kept.warnings.iter().any(|said| said.contains("stays 3600")), "{kept:?}");
        assert_eq!(kept.ok().pointer(requester).unwrap()["deadlineSeconds"], 3600);
    }
    let timed = jane.create_of("nodeevacuationrules", &timed).await.ok();
    assert!(timed["spec"]["template"]["requester"]["deadlineSeconds"].is_null(), "{timed:#}");
}
