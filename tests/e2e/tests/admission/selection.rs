use evacuation_e2e::scene::refused_saying;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{
    stage::{Stage, responder},
    webhook::{Answer, Webhook},
};

const VALIDATING: &str = "ValidatingWebhookConfiguration";

fn deny(_: &Value) -> Answer {
    Answer::Deny(json!({"message": "not here"}))
}

#[tokio::test]
async fn a_webhook_of_one_namespace_does_not_concern_another() {
    let stage = Stage::new("selected").await;
    let other = Stage::new("unselected").await;
    let webhook = Webhook::start(&stage, deny);
    stage.attach(VALIDATING, "namespace", &webhook, &json!({})).await;
    refused_saying(stage.create_responder("db", &json!({})).await, 400, "not here");
    other.create_responder("db", &json!({})).await.unwrap();
    stage.end().await;
}

#[tokio::test]
async fn an_object_selector_matches_the_new_object_or_the_old_one() {
    let stage = Stage::new("objects").await;
    let params = PostParams::default();
    let guarded = responder("guarded", &json!({"guarded": "yes"}));
    stage.responders().create(&params, &guarded).await.unwrap();
    let webhook = Webhook::start(&stage, deny);
    let selector = json!({"objectSelector": {"matchLabels": {"guarded": "yes"}}});
    stage.attach(VALIDATING, "objects", &webhook, &selector).await;
    stage.create_responder("free", &json!({"app": "db"})).await.unwrap();
    refused_saying(stage.create_responder("new", &json!({"guarded": "yes"})).await, 400, "not here");
    // The label is gone in the new object.
    let change = Patch::Merge(json!({"metadata": {"labels": {"guarded": null}}}));
    let changed = stage.responders().patch("guarded", &PatchParams::default(), &change).await;
    refused_saying(changed, 400, "not here");
    stage.end().await;
}
