//! Creation: the server fixes the responders and activates the first one, in the transaction that stores the
//! object.

use evacuation_apiserver::Budgets;
use evacuation_protocol::PackedSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::harness::{Server, evacuation, requester};

fn registration(name: &str, responder: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "evacuation.dev/v1alpha1",
        "kind": "EvacuationResponder",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "name": responder, "priority": priority},
    })
}

fn object() -> Value {
    evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))])
}

/// Name and state of each responder.
fn states(evacuation: &Value) -> Vec<(&str, &str)> {
    let responders = evacuation["status"]["responders"].as_array().unwrap();
    responders.iter().map(|r| (r["name"].as_str().unwrap(), r["state"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn the_first_event_of_an_evacuation_shows_its_responders_with_the_first_one_active() {
    let server = Server::start().await;
    server.cluster.register(&json!([{"name": "self", "timeoutSeconds": 7}]));
    let jane = server.user("jane");
    jane.create_of("evacuationresponders", &registration("low", "a.example.com/low", 1)).await.ok();
    let created = jane.create(&object()).await.ok();
    assert_eq!(states(&created), [("self", "Active"), ("a.example.com/low", "Inactive")]);
    let first = &created["status"]["responders"][0];
    assert_eq!(first["timeoutSeconds"], 7);
    assert!(first["activeTime"].is_string(), "{first:#}");
    assert_eq!(created["status"]["observedGeneration"], 1);

    // No write came between: the app can answer what it saw first.
    let reply = server.target().respond("e", json!({"answer": "Delay", "delaySeconds": 30})).await.ok();
    assert_eq!(reply["status"]["grantedSeconds"], 30);
}

#[tokio::test]
async fn the_question_to_a_pod_that_a_budget_may_select_is_left_to_the_controller() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let budgets = |app: &str| {
        let selector = serde_json::from_value(json!({"matchLabels": {"app": app}})).unwrap();
        Budgets::Known([PackedSelector::of(&selector).unwrap()].into())
    };
    let table = [
        (budgets("db"), false, "Inactive"),
        (budgets("db"), true, "Active"),
        (budgets("web"), false, "Active"),
        (Budgets::Unknown, false, "Inactive"),
    ];
    for (i, (budgets, serves, expected)) in table.into_iter().enumerate() {
        let case = format!("{budgets:?}, serves until termination: {serves}");
        server.cluster.register(&json!([{"name": "self", "servesUntilTermination": serves}]));
        server.cluster.change_pod(|pod| {
            pod.metadata.uid = Some(format!("u-{i}"));
            let ready = json!([{"type": "Ready", "status": "True"}]);
            pod.status.get_or_insert_default().conditions = serde_json::from_value(ready).unwrap();
        });
        server.cluster.set_budgets(budgets);
        let e = evacuation(&format!("e{i}"), "db-0", &[requester("jane.example.com/a", json!({}))]);
        let created = jane.create(&e).await.ok();
        assert_eq!(states(&created), [("self", expected)], "{case}");
        let recorded = created["status"]["responders"][0].get("servesUntilTermination");
        assert_eq!(recorded.is_some(), serves, "{case}");
    }
}

#[tokio::test]
async fn a_responder_that_was_registered_just_before_is_asked_and_a_later_one_is_not() {
    let server = Server::start().await;
    let jane = server.user("jane");
    for round in 0..20 {
        let (pod, early) = (format!("db-{round}"), format!("a.example.com/early-{round}"));
        server.cluster.add_running_pod(&pod, &format!("u-{round}"), json!({"labels": {"app": "db"}}));
        jane.create_of("evacuationresponders", &registration("early", &early, 1)).await.ok();
        let name = format!("e-{round}");
        let object = evacuation(&name, &pod, &[requester("jane.example.com/a", json!({}))]);
        let created = jane.create(&object).await.ok();
        assert_eq!(states(&created), [(early.as_str(), "Active")], "round {round}");
        jane.create_of("evacuationresponders", &registration("late", "a.example.com/late", 2)).await.ok();
        let later = jane.get(&format!("evacuations/{name}")).await.ok();
        assert_eq!(states(&later), [(early.as_str(), "Active")], "round {round}");
        for name in ["early", "late"] {
            jane.delete_at(&format!("evacuationresponders/{name}")).await.ok();
        }
    }
}

#[tokio::test]
async fn no_app_is_asked_at_creation_that_terminates_has_ended_or_does_not_run() {
    type Change = fn(&mut k8s_openapi::api::core::v1::Pod);
    let server = Server::start().await;
    let jane = server.user("jane");
    let table: [(&str, Change); 3] = [
        ("terminating", |pod| {
            pod.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::MAX));
        }),
        ("ended", |pod| pod.status.as_mut().unwrap().phase = Some("Succeeded".to_owned())),
        ("no container runs", |pod| pod.status.as_mut().unwrap().container_statuses = None),
    ];
    for (case, change) in table {
        server.cluster.register(&json!([{"name": "self"}]));
        server.cluster.change_pod(change);
        let created = jane.create(&object()).await.ok();
        assert_eq!(states(&created), [("self", "Inactive")], "{case}");
        jane.delete("e").await.ok();
    }
}

#[tokio::test]
async fn the_requester_is_warned_of_registered_responders_that_are_not_asked_and_the_status_names_them() {
    let server = Server::start().await;
    server.cluster.register(&json!([{"name": "self", "priority": 0}]));
    let jane = server.user("jane");
    for i in 0..16 {
        let name = format!("a.example.com/r-{i:02}");
        jane.create_of("evacuationresponders", &registration(&format!("r-{i:02}"), &name, 1000 - i))
            .await
            .ok();
    }
    let reply = jane.create(&object()).await;
    let warned = reply.warnings.iter().any(|warning| warning.contains("not asked: a.example.com/r-15"));
    assert!(warned, "{reply:#?}");
    let created = reply.ok();
    assert_eq!(created["status"]["registration"]["leftOut"], json!(["a.example.com/r-15"]));
    assert_eq!(states(&created).last(), Some(&("self", "Inactive")), "self keeps its place");
}

#[tokio::test]
async fn the_controller_cannot_change_the_list_that_the_server_fixed() {
    let server = Server::start().await;
    server.cluster.register(&json!([{"name": "self"}]));
    let created = server.evacuation("e", json!({})).await;
    let changes: [fn(&mut Value); 3] = [
        |status| status["responders"] = json!([]),
        |status| status["responders"][0]["timeoutSeconds"] = json!(1),
        |status| {
            status.as_object_mut().unwrap().remove("responders");
        },
    ];
    for change in changes {
        let refusal = server.controller().edit_status("e", change).await.refused(422, "Invalid");
        refusal.saying("fixed at creation");
    }
    let registration = |status: &mut Value| status["registration"] = json!({"leftOut": ["a.b/c"]});
    let kept = server.controller().edit_status("e", registration).await.ok();
    assert_eq!(kept["status"], created["status"]);
}
