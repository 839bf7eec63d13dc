//! Evictions that an admission webhook rejects.

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{DenyingWebhook, PodSpec};
use serde_json::json;

use crate::nodes::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_a_webhook_rejects_is_stuck_after_a_while_until_it_lets_the_pod_go() {
    let stage = Stage::new("webhook", 1).await;
    let pod = stage.scene.pod("app", PodSpec::default().on(&stage.nodes[0])).await;
    let webhook = DenyingWebhook::start(&stage.scene, "app").await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let words = ["admission webhook rejects the eviction", "deny.test.evacuation.dev", "until Monday"];
    let object = |evacuation: &str| format!("Evacuation/{evacuation}");
    let slow = stage.blocked("d", DrainBlockerReason::EvictionRejected, false).await;
    let evacuation = kube::ResourceExt::name_any(&stage.scene.evacuation_of("app").await);
    slow.concerns(&[&pod], &object(&evacuation)).says(&words);
    let stuck = stage.blocked("d", DrainBlockerReason::EvictionRejected, true).await;
    stuck.concerns(&[&pod], &object(&evacuation)).says(&words);
    webhook.stop().await;
    stage.drained("d").await;
}
