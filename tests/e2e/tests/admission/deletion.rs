use evacuation_e2e::scene::refused_saying;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::{
    stage::Stage,
    webhook::{Answer, Webhook},
};

#[tokio::test]
async fn a_webhook_denies_the_deletion_of_an_object_and_of_a_collection() {
    let stage = Stage::new("deletion").await;
    let webhook = Webhook::start(&stage, |request| {
        let kept = request["oldObject"]["metadata"]["labels"]["kept"] == "yes";
        if request["operation"] == "DELETE" && kept {
            Answer::Deny(json!({"code": 409, "reason": "Conflict", "message": "it is kept"}))
        } else {
            Answer::Allow
        }
    });
    stage.attach("ValidatingWebhookConfiguration", "keep", &webhook, &json!({})).await;
    stage.create_responder("kept", &json!({"kept": "yes"})).await.unwrap();
    stage.create_responder("free", &json!({})).await.unwrap();
    webhook.requests();
    let params = DeleteParams::default();
    let denied = stage.responders().delete("kept", &params).await;
    let text = "admission webhook \"keep.test.evacuation.dev\" denied the request: it is kept";
    refused_saying(denied, 409, text);
    let request = webhook.requests().remove(0);
    assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &json!(null)));
    assert_eq!(request["options"]["kind"], "DeleteOptions");
    let denied = stage.responders().delete_collection(&params, &ListParams::default()).await;
    refused_saying(denied, 409, text);
    assert!(stage.responders().get_opt("kept").await.unwrap().is_some());
    stage.responders().delete_collection(&params, &ListParams::default().labels("kept!=yes")).await.unwrap();
    assert!(stage.responders().get_opt("free").await.unwrap().is_none());
    stage.end().await;
}
