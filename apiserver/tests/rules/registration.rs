//! EvacuationResponders: who may register whom, and what is wrong with one.

use serde_json::{Value, json};

use crate::harness::Server;

const RESOURCE: &str = "evacuationresponders";
const FAILOVER: &str = "db.acme.io/failover";

/// An EvacuationResponder `r` for every pod, with these further fields.
fn registration(name: &str, more: Value) -> Value {
    let mut spec = more;
    spec["name"] = json!(name);
    if spec.get("selector").is_none() {
        spec["selector"] = json!({});
    }
    json!({
        "apiVersion": "evacuation.dev/v1alpha1",
        "kind": "EvacuationResponder",
        "metadata": {"name": "r"},
        "spec": spec,
    })
}

fn service() -> Value {
    json!({"service": {"name": "failover", "port": 8443}})
}

fn http() -> Value {
    json!({"http": {"port": 8080}})
}

#[tokio::test]
async fn a_registration_gets_its_defaults_and_has_no_status() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let created = jane.create_of(RESOURCE, &registration(FAILOVER, json!({}))).await.ok();
    assert_eq!(created["kind"], "EvacuationResponder");
    assert_eq!(
        created["spec"],
        json!({"selector": {}, "name": FAILOVER, "priority": 10_000, "timeoutSeconds": 60, "maxDelaySeconds": 86_400})
    );
    assert_eq!(created.get("status"), None);
    assert_eq!(jane.get(RESOURCE).await.ok()["items"][0]["metadata"]["name"], "r");
    jane.delete_at("evacuationresponders/r").await.ok();
    jane.get("evacuationresponders/r").await.refused(404, "NotFound");
}

#[tokio::test]
async fn whoever_registers_an_endpoint_must_be_allowed_to_answer_by_that_name() {
    let server = Server::start().await;
    server.cluster.grant("op", &format!("respond responders {FAILOVER}"));
    server.cluster.grant("wide", "respond responders db.acme.io/*");
    server.cluster.grant("other", "respond responders web.acme.io/*");
    let table = [
        ("jane", FAILOVER, json!({}), true, "one that watches answers with its own credentials"),
        ("jane", "self", json!({}), true, "the pod answers for itself"),
        ("jane", "self", http(), true, "the pod answers for itself over HTTP"),
        ("jane", "self", service(), false, "a Service answers for the pod"),
        ("jane", FAILOVER, http(), false, "the pod answers by another name"),
        ("jane", FAILOVER, service(), false, "a Service answers by that name"),
        ("other", FAILOVER, service(), false, "another domain"),
        ("op", FAILOVER, service(), true, "that very name"),
        ("op", FAILOVER, http(), true, "that very name, at the pod"),
        ("wide", FAILOVER, service(), true, "the name's domain"),
    ];
    for (user, responder, more, allowed, why) in table {
        let caller = server.user(user);
        let reply = caller.create_of(RESOURCE, &registration(responder, more)).await;
        if allowed {
            reply.ok();
            caller.delete_at("evacuationresponders/r").await.ok();
        } else {
            assert_eq!(reply.code, 403, "{why}: {reply:?}");
            reply.refused(403, "Forbidden").saying("it takes the verb respond");
        }
    }
}

#[tokio::test]
async fn a_registered_endpoint_is_changed_only_by_those_who_may_answer_by_its_name() {
    let server = Server::start().await;
    server.cluster.grant("op", &format!("respond responders {FAILOVER}"));
    let (op, jane) = (server.user("op"), server.user("jane"));
    let created = op.create_of(RESOURCE, &registration(FAILOVER, service())).await.ok();
    let changed = |change: fn(&mut Value)| {
        let mut object = created.clone();
        change(&mut object);
        object
    };
    let elsewhere = changed(|o| o["spec"]["service"]["name"] = json!("mine"));
    let wider = changed(|o| o["spec"]["selector"] = json!({"matchLabels": {"app": "db"}}));
    for object in [&elsewhere, &wider] {
        jane.update_of(RESOURCE, object).await.refused(403, "Forbidden");
    }
    let labelled = changed(|o| o["metadata"]["labels"] = json!({"team": "db"}));
    let mut labelled = jane.update_of(RESOURCE, &labelled).await.ok();
    labelled["spec"]["service"].take();
    jane.update_of(RESOURCE, &labelled).await.ok();
    let mut again = labelled.clone();
    again["spec"]["service"] = created["spec"]["service"].clone();
    again["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    jane.update_of(RESOURCE, &again).await.refused(403, "Forbidden");
    op.update_of(RESOURCE, &again).await.ok();
}

#[tokio::test]
async fn every_field_of_a_registration_that_is_wrong_is_named() {
    let server = Server::start().await;
    let spec = json!({
        "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
        "priority": -1,
        "http": {"port": 0},
    });
    let refusal = server
        .user("jane")
        .create_of(RESOURCE, &registration("failover", spec))
        .await
        .refused(422, "Invalid");
    let refusal = refusal.because("FieldValueNotSupported", "spec.selector.matchExpressions[0].operator");
    let fields: Vec<&str> = refusal.0["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    for field in ["spec.name", "spec.priority", "spec.http.port"] {
        assert!(fields.contains(&field), "{field}: {fields:?}");
    }
}

#[tokio::test]
async fn a_registration_without_a_selector_or_with_a_field_that_does_not_exist_is_refused() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let mut object = registration(FAILOVER, json!({}));
    object["spec"].as_object_mut().unwrap().remove("selector");
    jane.create_of(RESOURCE, &object).await.refused(422, "Invalid").saying("spec.selector: Required value");
    let object = registration(FAILOVER, json!({"service": {"name": "s", "port": 1, "namespace": "other"}}));
    jane.create_of(&format!("{RESOURCE}?fieldValidation=Strict"), &object)
        .await
        .refused(400, "BadRequest")
        .saying("unknown field \"spec.service.namespace\"");
}

#[tokio::test]
async fn unknown_fields_of_an_endpoint_are_dropped_warned_of_or_refused_as_all_others() {
    let server = Server::start().await;
    server.cluster.grant("jane", &format!("respond responders {FAILOVER}"));
    let jane = server.user("jane");
    let https = json!({"caBundle": "", "newer": 1});
    for (more, field) in [
        (json!({"http": {"port": 8080, "newer": 1}}), "spec.http.newer"),
        (json!({"service": {"name": "s", "port": 1, "newer": 1}}), "spec.service.newer"),
        (json!({"service": {"name": "s", "port": 1, "https": https}}), "spec.service.https.newer"),
    ] {
        let unknown = format!("unknown field {field:?}");
        let object = registration(FAILOVER, more);
        let create = async |how: &str| {
            jane.create_of(&format!("{RESOURCE}?dryRun=All&fieldValidation={how}"), &object).await
        };
        create("Strict").await.refused(400, "BadRequest").saying(&unknown);
        if field.starts_with("spec.service.https") {
            // The bundle of this one is refused, but only after the fields were read.
            create("Warn").await.refused(422, "Invalid").saying("caBundle");
            continue;
        }
        let warned = create("Warn").await;
        let quoted = unknown.replace('"', "\\\"");
        assert!(warned.warnings.iter().any(|warning| warning.contains(&quoted)), "{:?}", warned.warnings);
        warned.ok();
        let ignored = create("Ignore").await;
        assert!(ignored.warnings.is_empty(), "{:?}", ignored.warnings);
        ignored.ok();
    }
}

#[tokio::test]
async fn the_table_shows_who_is_asked_for_which_pods_and_how() {
    let server = Server::start().await;
    server.cluster.grant("jane", "respond responders");
    let jane = server.user("jane");
    let expressions = json!({
        "selector": {
            "matchLabels": {"app": "db"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "test", "operator": "DoesNotExist"},
            ],
        },
    });
    for (more, transport, selector) in [
        (json!({}), "watch", "<all>"),
        (http(), "pod:8080", "<all>"),
        (service(), "service/failover:8443", "<all>"),
        (expressions, "watch", "app=db,tier in (a,b),!test"),
    ] {
        jane.create_of(RESOURCE, &registration(FAILOVER, more)).await.ok();
        let table = jane.get_table(RESOURCE).await.ok();
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(
            &cells[..5],
            [json!("r"), json!(FAILOVER), json!(10_000), json!(transport), json!(selector)]
        );
        jane.delete_at("evacuationresponders/r").await.ok();
    }
}
