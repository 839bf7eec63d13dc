use evacuation_e2e::scene::refused_saying;
use kube::ResourceExt;
use serde_json::json;

use crate::{
    relay::Relay,
    stage::{Stage, responder},
    webhook::{Answer, Webhook},
};

const VALIDATING: &str = "ValidatingWebhookConfiguration";

#[tokio::test]
async fn a_denial_reaches_the_user_of_kubectl_in_the_words_of_the_webhook() {
    let stage = Stage::new("denied").await;
    let webhook = Webhook::start(&stage, |request| {
        if request["object"]["spec"]["priority"].as_i64() > Some(20_000) {
            let message = "priority is above 20000";
            return Answer::Deny(json!({"code": 403, "reason": "Forbidden", "message": message}));
        }
        Answer::Warn("a warning of the webhook".to_owned())
    });
    stage.attach(VALIDATING, "deny", &webhook, &json!({})).await;
    let mut object = serde_json::to_value(responder("db", &json!({}))).unwrap();
    let output = stage.kubectl(&["create", "-f", &stage.file(&object)]).await;
    assert!(output.success() && output.stderr.contains("Warning: a warning of the webhook"), "{output:?}");
    object["metadata"]["name"] = json!("high");
    object["spec"]["priority"] = json!(30_000);
    let output = stage.kubectl(&["create", "-f", &stage.file(&object)]).await;
    let text = "admission webhook \"deny.test.evacuation.dev\" denied the request: priority is above 20000";
    assert!(!output.success() && output.stderr.contains(text), "{output:?}");
    assert!(output.stderr.starts_with("Error from server (Forbidden)"), "{output:?}");
    assert!(stage.responders().get_opt("high").await.unwrap().is_none());
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = stage.direct(0).request_text(request).await.unwrap();
    let rejected = "apiserver_admission_webhook_rejection_count{name=\"deny.test.evacuation.dev\",\
        type=\"validating\",operation=\"CREATE\",error_type=\"no_error\",rejection_code=\"403\"} 1";
    assert!(metrics.contains(rejected), "{metrics}");
    stage.end().await;
}

#[tokio::test]
async fn a_webhook_that_is_down_refuses_or_is_ignored_as_its_policy_says() {
    let stage = Stage::new("down").await;
    let webhook = Webhook::start(&stage, |_| Answer::Deny(json!({"message": "never"})));
    stage.attach(VALIDATING, "open", &webhook, &json!({"failurePolicy": "Ignore"})).await;
    let denied = stage.create_responder("denied", &json!({})).await;
    refused_saying(denied, 400, "denied the request: never");
    webhook.stop().await;
    stage.create_responder("open", &json!({})).await.unwrap();

    let closed = Webhook::start(&stage, |_| Answer::Allow);
    stage.attach(VALIDATING, "closed", &closed, &json!({})).await;
    stage.create_responder("allowed", &json!({})).await.unwrap();
    closed.stop().await;
    let text = "failed calling webhook \"closed.test.evacuation.dev\": failed to call webhook: Post";
    refused_saying(stage.create_responder("closed", &json!({})).await, 500, text);
    stage.end().await;
}

#[tokio::test]
async fn a_webhook_that_ends_a_connection_under_a_question_is_asked_over_a_new_one() {
    let stage = Stage::new("cut").await;
    let webhook = Webhook::start(&stage, |_| Answer::Allow);
    let relay = Relay::start(&webhook).await;
    let more = json!({"clientConfig": relay.client_config()});
    stage.attach(VALIDATING, "cut", &webhook, &more).await;
    // Connections that nobody uses end by themselves after some seconds.
    for number in 0.. {
        stage.create_responder(&format!("open-{number}"), &json!({})).await.unwrap();
        relay.end_when_used();
        stage.create_responder(&format!("cut-{number}"), &json!({})).await.unwrap();
        if relay.cut() > 0 {
            break;
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn a_dry_run_reaches_a_webhook_as_such() {
    let stage = Stage::new("dry-run").await;
    let webhook = Webhook::start(&stage, |_| Answer::Allow);
    stage.attach(VALIDATING, "clean", &webhook, &json!({"sideEffects": "NoneOnDryRun"})).await;
    let dry = stage.dry_run("dry", &json!({})).await.unwrap();
    assert_eq!(dry.name_any(), "dry");
    assert_eq!(webhook.requests()[0]["dryRun"], true);
    assert!(stage.responders().get_opt("dry").await.unwrap().is_none());
    stage.end().await;
}

#[tokio::test]
async fn a_condition_decides_if_the_webhook_is_called() {
    let stage = Stage::new("conditions").await;
    let webhook = Webhook::start(&stage, |_| Answer::Allow);
    let conditions = json!({"matchConditions": [
        {"name": "guarded", "expression": "object != null && has(object.metadata.labels) && 'guarded' in object.metadata.labels"},
        {"name": "admin", "expression": "request.userInfo.username == 'admin'"},
    ]});
    stage.attach(VALIDATING, "conditional", &webhook, &conditions).await;
    stage.create_responder("free", &json!({"app": "db"})).await.unwrap();
    assert!(webhook.requests().is_empty());
    stage.create_responder("guarded", &json!({"guarded": "yes"})).await.unwrap();
    assert_eq!(webhook.requests().len(), 1);
    stage.end().await;
}
