use evacuation_api::EvacuationResponder;
use evacuation_e2e::{PodSpec, scene::quick};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    stage::{Stage, responder},
    webhook::{Answer, Webhook},
};

const MUTATING: &str = "MutatingWebhookConfiguration";

/// Adds a label to every object that is created or changed.
fn label(request: &Value) -> Answer {
    if request["operation"] == "DELETE" {
        return Answer::Allow;
    }
    if request["object"]["metadata"].get("labels").is_none() {
        return Answer::Patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"team": "db"}}]));
    }
    Answer::Patch(json!([{"op": "add", "path": "/metadata/labels/team", "value": "db"}]))
}

fn entry(responder: &EvacuationResponder, manager: &str) -> Value {
    let entries = serde_json::to_value(&responder.metadata.managed_fields).unwrap();
    let entry = entries.as_array().unwrap().iter().find(|entry| entry["manager"] == manager);
    entry.cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_object_that_is_stored() {
    let stage = Stage::new("mutating").await;
    let webhook = Webhook::start(&stage, label);
    stage.attach(MUTATING, "label", &webhook, &json!({})).await;
    let created = stage.create_responder("db", &json!({"app": "db"})).await.unwrap();
    assert_eq!(created.labels()["team"], "db");
    let stored = stage.responders().get("db").await.unwrap();
    assert_eq!(stored.labels(), created.labels());
    let request = webhook.requests().remove(0);
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["resource"]["resource"], "evacuationresponders");
    assert_eq!(request["kind"]["kind"], "EvacuationResponder");
    assert_eq!((&request["name"], &request["namespace"]), (&json!("db"), &json!(stage.namespace())));
    assert_eq!(request["userInfo"]["username"], "admin");
    assert_eq!(request["object"]["spec"]["priority"], 10_000, "with defaults");
    stage.end().await;
}

#[tokio::test]
async fn applies_pass_through_webhooks_and_own_only_what_they_apply() {
    let stage = Stage::new("mutated-apply").await;
    let webhook = Webhook::start(&stage, label);
    stage.attach(MUTATING, "label", &webhook, &json!({})).await;
    let mut configuration = serde_json::to_value(responder("db", &json!({"app": "db"}))).unwrap();
    configuration["metadata"]["namespace"] = json!(stage.namespace());
    let file = stage.file(&configuration);
    let apply = ["apply", "--server-side", "--field-manager=gitops", "-f", &file];
    let output = stage.kubectl(&apply).await;
    assert!(output.success(), "{output:?}");
    let created = stage.responders().get("db").await.unwrap();
    assert_eq!(created.labels()["team"], "db");
    let owned = entry(&created, "gitops");
    assert_eq!(owned["operation"], "Apply");
    assert_eq!(owned["fieldsV1"]["f:metadata"]["f:labels"], json!({"f:app": {}}), "{owned}");
    let operations = |webhook: &Webhook| -> Vec<Value> {
        webhook.requests().iter().map(|request| request["operation"].clone()).collect()
    };
    assert_eq!(operations(&webhook), ["CREATE"]);

    configuration["spec"]["priority"] = json!(30_000);
    stage.file(&configuration);
    let output = stage.kubectl(&apply).await;
    assert!(output.success(), "{output:?}");
    let changed = stage.responders().get("db").await.unwrap();
    assert_eq!((changed.spec.priority, &*changed.labels()["team"]), (Some(30_000), "db"));
    let owned = entry(&changed, "gitops");
    assert_eq!(owned["fieldsV1"]["f:metadata"]["f:labels"], json!({"f:app": {}}), "{owned}");
    assert_eq!(owned["fieldsV1"]["f:spec"]["f:priority"], json!({}), "{owned}");
    assert_eq!(operations(&webhook), ["UPDATE"]);

    // The same again changes nothing, although the webhook answers with a patch again.
    let output = stage.kubectl(&apply).await;
    assert!(output.success(), "{output:?}");
    let same = stage.responders().get("db").await.unwrap();
    assert_eq!(same.resource_version(), changed.resource_version());
    stage.end().await;
}

#[tokio::test]
async fn a_webhook_is_called_again_when_a_later_one_changed_the_object() {
    let stage = Stage::new("reinvocation").await;
    let first = Webhook::start(&stage, |request| {
        let team = request["object"]["metadata"]["labels"]["team"].as_str().unwrap_or("none").to_owned();
        Answer::Patch(json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": team}}]))
    });
    let second = Webhook::start(&stage, label);
    stage.attach(MUTATING, "b-second", &second, &json!({})).await;
    stage.attach(MUTATING, "a-first", &first, &json!({"reinvocationPolicy": "IfNeeded"})).await;
    second.requests();
    let created = stage.create_responder("db", &json!({"app": "db"})).await.unwrap();
    assert_eq!(created.annotations()["seen"], "db");
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1));
    stage.end().await;
}

#[tokio::test]
async fn a_webhook_sees_the_status_and_cannot_change_it_through_the_object() {
    let stage = Stage::new("mutated-status").await;
    let webhook = Webhook::start(&stage, |request| {
        if request["operation"] != "UPDATE" {
            return Answer::Allow;
        }
        let forged = json!({"conditions": [{"type": "Evacuated", "status": "True", "reason": "Forged",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let spec = request["subResource"] != "status";
        Answer::Patch(if spec {
            json!([{"op": "add", "path": "/status", "value": forged}])
        } else {
            json!([{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 1}])
        })
    });
    stage.attach(MUTATING, "forge", &webhook, &json!({})).await;
    let pod = stage.pod("db-0", quick(PodSpec::default())).await;
    let evacuation = stage.ask(&pod, json!({})).await;
    // The controller's writes of the status pass through the webhook, too.
    stage.ends(&evacuation, "Evacuated Evicted").await;
    let name = evacuation.name_any();
    let change = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let changed = stage.evacuations().patch(&name, &PatchParams::default(), &change).await.unwrap();
    let conditions = serde_json::to_string(&changed.status).unwrap();
    assert!(!conditions.contains("Forged"), "{conditions}");
    assert_ne!(changed.spec.ttl_seconds_after_finished, Some(1));
    let requests = webhook.requests();
    let status = requests.iter().find(|request| request["subResource"] == "status").unwrap();
    assert_eq!(status["requestSubResource"], "status");
    assert!(status["oldObject"]["status"] != status["object"]["status"], "{status}");
    stage.end().await;
}
