//! Output of `kubectl get`, and bad input.

use serde_json::{Value, json};

use crate::harness::{Server, evacuation, requester, responder};

#[tokio::test]
async fn the_table_shows_target_state_and_answer() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    server.begin("e", &[responder("self", 10_000, "Active")]).await;
    server.target().respond("e", json!({"answer": "Delay", "delaySeconds": 30})).await.ok();
    for (caller, resource) in [(server.user("jane"), "evacuations"), (server.target(), "selfevacuations")] {
        let table = caller.get_table(resource).await.ok();
        let columns: Vec<_> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(&columns[..4], ["Name", "Target", "State", "Answer"], "{table:#}");
        assert_eq!(columns.last().unwrap().as_str(), Some("Age"));
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(&cells[..2], [json!("e"), json!("db-0")]);
        assert_eq!(cells[3], "Delay");
    }
}

#[tokio::test]
async fn evacuations_can_be_selected_by_pod_and_by_whether_they_ended() {
    let server = Server::start().await;
    server.cluster.add_pod("db-1", "u-1");
    server.evacuation("e-0", json!({})).await;
    let second = evacuation("e-1", "db-1", &[requester("jane.example.com/a", json!({}))]);
    let jane = server.user("jane");
    jane.create(&second).await.ok();
    jane.edit("e-1", |object| object["spec"]["requesters"] = json!([])).await.ok();
    for (selector, expected) in [
        ("spec.target.pod.name=db-0", vec!["e-0"]),
        ("spec.target.pod.uid=u-1", vec!["e-1"]),
        ("status.finished=true", vec!["e-1"]),
        ("status.finished!=true", vec!["e-0"]),
        ("spec.target.pod.name=db-0,status.finished=true", vec![]),
    ] {
        let list =
            jane.get(&format!("evacuations?fieldSelector={}", selector.replace('=', "%3D"))).await.ok();
        let names: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|e| &e["metadata"]["name"]).collect();
        assert_eq!(names, expected, "{selector}");
    }
    jane.get("evacuations?fieldSelector=spec.no%3Dx").await.refused(400, "BadRequest");
}

#[tokio::test]
async fn every_field_that_is_wrong_is_named() {
    let server = Server::start().await;
    let mut object = evacuation("e", "db-0", &[requester("no-domain", json!({"gracePeriodSeconds": -1}))]);
    object["spec"]["ttlSecondsAfterFinished"] = json!(-1);
    let refusal = server.user("jane").create(&object).await.refused(422, "Invalid");
    let causes = refusal.0["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    for field in
        ["spec.requesters[0].name", "spec.requesters[0].gracePeriodSeconds", "spec.ttlSecondsAfterFinished"]
    {
        assert!(fields.contains(&field), "{field}: {fields:?}");
    }
    assert_eq!(refusal.0["details"]["kind"], "Evacuation");
}

#[tokio::test]
async fn what_the_schema_does_not_know_is_refused_when_strict() {
    let server = Server::start().await;
    let mut object = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({"onRefusl": "Wait"}))]);
    let jane = server.user("jane");
    let refusal = jane.create_with(&object, "?fieldValidation=Strict").await.refused(400, "BadRequest");
    refusal.saying("unknown field \"spec.requesters[0].onRefusl\"");
    object["spec"]["requesters"][0] = requester("jane.example.com/a", json!({"deadline": "in 10 minutes"}));
    jane.create(&object).await.refused(422, "Invalid").saying("in 10 minutes");
}

#[tokio::test]
async fn nothing_is_created_in_a_terminating_namespace() {
    let server = Server::start().await;
    server.cluster.terminate_namespace("shop");
    let object = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))]);
    let refusal = server.user("jane").create(&object).await.refused(403, "Forbidden");
    refusal.cause("NamespaceTerminating");
}

#[tokio::test]
async fn what_cannot_be_found_out_is_refused_for_a_while_and_never_granted() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let object = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))]);
    for what in ["pods", "rights"] {
        server.cluster.break_down(Some(what));
        let refusal = jane.create(&object).await.refused(503, "ServiceUnavailable");
        assert_eq!(refusal.retry_after(), Some(1), "{what}");
        jane.get("evacuations/e").await.refused(404, "NotFound");
    }
    server.cluster.break_down(None);
    jane.create(&object).await.ok();

    // Reading and withdrawing need nothing else.
    server.cluster.break_down(Some("rights"));
    server.begin("e", &[responder("self", 10_000, "Active")]).await;
    jane.get("evacuations/e").await.ok();
    server.cluster.break_down(Some("pods"));
    server.target().respond("e", json!({"answer": "Accept"})).await.refused(503, "ServiceUnavailable");
    jane.edit("e", |object| object["spec"]["requesters"] = json!([])).await.ok();
}

#[tokio::test]
async fn the_requests_to_the_store_are_measured() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    let metrics = server.metrics().await;
    for operation in ["create", "list"] {
        let count = format!(
            r#"etcd_request_duration_seconds_count{{operation="{operation}",group="evacuation.dev",resource="evacuations"}} "#
        );
        let line = metrics.lines().find_map(|line| line.strip_prefix(&count));
        assert!(line.is_some_and(|count| count != "0"), "{operation} is not in\n{metrics}");
    }
}
