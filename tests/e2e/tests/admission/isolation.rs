use std::time::{Duration, Instant};

use evacuation_e2e::scene::Bystander;
use futures::future::join_all;
use serde_json::json;

use crate::{
    stage::{Stage, responder},
    webhook::{Answer, Webhook},
};

#[tokio::test]
async fn a_slow_webhook_of_one_tenant_holds_up_nobody_else() {
    let stage = Stage::new("slow").await;
    let other = Stage::new("fast").await;
    let bystander = Bystander::new(&stage).await;
    let webhook = Webhook::start(&stage, |request| {
        if request["name"].as_str().is_some_and(|name| name.starts_with("slow")) {
            Answer::Slow(Duration::from_secs(8))
        } else {
            Answer::Allow
        }
    });
    stage.attach("ValidatingWebhookConfiguration", "slow", &webhook, &json!({})).await;
    let tenant = stage.user("tenant", &[]).await;
    let rule =
        json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuationresponders"], "verbs": ["*"]});
    stage.grant(&tenant.name, rule).await;
    let api: kube::Api<evacuation_api::EvacuationResponder> =
        kube::Api::namespaced(tenant.client.clone(), stage.namespace());
    let flood = tokio::spawn(async move {
        let params = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
        let wanted: Vec<_> = (0..60).map(|number| responder(&format!("slow-{number}"), &json!({}))).collect();
        join_all(wanted.iter().map(|wanted| api.create(&params, wanted))).await
    });
    let started = Instant::now();
    while webhook.requests().is_empty() {
        assert!(started.elapsed() < Duration::from_mins(2), "no call arrived");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for number in 0..10 {
        other.create_responder(&format!("db-{number}"), &json!({})).await.unwrap();
    }
    assert!(!flood.is_finished(), "the flood held them up to its end");
    bystander.drains(&stage).await;
    let flood = flood.await.unwrap();
    let passed = flood.iter().filter(|result| result.is_ok()).count();
    let busy = |result: &&Result<_, kube::Error>| matches!(result, Err(kube::Error::Api(status)) if status.code == 429);
    let refused = flood.iter().filter(busy).count();
    assert!(passed > 0, "{flood:?}");
    assert_eq!(passed + refused, 60, "{flood:?}");
    stage.end().await;
}
