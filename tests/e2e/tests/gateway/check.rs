//! `kubectl evacuate check` beside a gateway that runs outside the cluster.

use anyhow::bail;
use controlplane::eventually;
use evacuation_e2e::{
    Pool, Scene,
    scene::{Item, PATIENCE, names_in_state},
};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, api::PostParams};

use crate::stage::{Stage, options};

static POOL: Pool = Pool::new(1, options);

/// Sets the failurePolicy of the webhooks that decide.
async fn set_policy(stage: &Stage, policy: &str) {
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.admin());
    let set = eventually(PATIENCE, "the policy is written", || async {
        let mut configuration = webhooks.get("evacuation-gateway").await?;
        for webhook in configuration.webhooks.iter_mut().flatten() {
            if !webhook.name.starts_with("warn.") {
                webhook.failure_policy = Some(policy.to_owned());
            }
        }
        webhooks.replace("evacuation-gateway", &PostParams::default(), &configuration).await
    });
    set.await.unwrap();
}

/// Waits until the gateway's item has that state and says these words. The exit code must fit.
async fn until(stage: &Stage, expected: &str, words: &[&str]) -> Item {
    let found = eventually(PATIENCE, "the gateway's item has that state", || async {
        let mut report = stage.check(None).await;
        let gateway = &report.items["gateway"];
        if gateway.state != expected || !words.iter().all(|word| gateway.message.contains(word)) {
            bail!("{report:?}");
        }
        // A busy machine can renew a lease late.
        let others = names_in_state(&report.items, "failed").iter().any(|name| *name != "gateway");
        if others || names_in_state(&report.items, "warning").iter().any(|name| *name != "gateway") {
            bail!("{report:?}");
        }
        assert_eq!(report.code, Some(i32::from(expected == "failed")), "{report:?}");
        Ok(report.items.remove("gateway").unwrap())
    });
    found.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_gateway_is_a_failure_where_it_blocks_calls_and_a_warning_where_they_pass() {
    let stage = Stage::of(Scene::from_pool("check", &POOL)).await;
    until(&stage, "ok", &["3 webhooks, failurePolicy Ignore;", "it answers"]).await;
    let report = stage.check(None).await;
    // They hold no lease here.
    assert_eq!(names_in_state(&report.items, "unknown"), ["controller-manager", "scheduler"], "{report:?}");

    let gateway = &stage.gateway().processes()[0];
    gateway.kill().unwrap();
    let words = ["did not answer a trial call in namespace", ": calls pass unasked"];
    let passes = until(&stage, "warning", &words).await;
    let way_out = passes.way_out.unwrap();
    assert!(way_out.contains("kubectl get validatingwebhookconfiguration evacuation-gateway"), "{way_out}");

    set_policy(&stage, "Fail").await;
    let words = ["cannot call it (", "calls of the webhooks with failurePolicy Fail are rejected"];
    let blocks = until(&stage, "failed", &words).await;
    assert!(blocks.way_out.unwrap().starts_with("the gateway's process and log"));
    assert!(!blocks.message.contains("/evict/"), "the path is secret: {}", blocks.message);

    gateway.start().unwrap();
    until(&stage, "ok", &["failurePolicy Fail and Ignore;", "it answers"]).await;
    set_policy(&stage, "Ignore").await;
    until(&stage, "ok", &["failurePolicy Ignore;", "it answers"]).await;
}
