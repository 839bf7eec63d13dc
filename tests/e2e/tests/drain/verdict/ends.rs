//! Drains that have ended: one word in the API, the metrics, the Events and the plugin.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, DrainConditionType, DrainVerdict};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{PATIENCE, answer},
};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::nodes::Stage;

impl Stage {
    /// Waits until the controller counts that many drains of that verdict.
    async fn counts(&self, verdict: DrainVerdict, count: u32) {
        let line = format!("evacuation_controller_drains{{verdict=\"{}\"}} {count}", verdict.as_str());
        let counted = eventually(PATIENCE, &line, || async {
            let text = self.scene.platform().controller_metrics().await?;
            if text.lines().any(|known| known == line) { Ok(()) } else { bail!("{text}") }
        });
        counted.await.unwrap();
    }

    /// Checks the word of a drain in `kubectl get` and in `kubectl evacuate status`, and returns its page.
    async fn shows(&self, drain: &str, verdict: DrainVerdict) -> String {
        let (name, word) = (self.name(drain), verdict.as_str());
        for command in [["get", "nodeevac", &name], ["evacuate", "status", &name]] {
            let output = self.scene.platform().kubectl(&command).await.unwrap();
            assert!(output.code == Some(0) && output.stdout.contains(word), "{word}: {output:?}");
        }
        let selector = format!("status.verdict={word}");
        let selected = ["get", "nodeevac", "--field-selector", &selector, "--output=name"];
        let output = self.scene.platform().kubectl(&selected).await.unwrap();
        assert!(output.stdout.contains(&name), "{selector}: {output:?}");
        let page = self.scene.platform().kubectl(&["evacuate", "status", &name]).await.unwrap();
        page.stdout
    }

    /// The reasons of the drain's Events.
    pub(super) async fn announced(&self, drain: &str) -> Vec<String> {
        let (api, name): (Api<Event>, _) = (Api::all(self.scene.admin()), self.name(drain));
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let of_drain = all.into_iter().filter(|event| {
            event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(&name)
        });
        of_drain.filter_map(|event| event.reason).collect()
    }

    /// Waits until the drain has an Event of that reason.
    pub(super) async fn announces(&self, drain: &str, reason: &str) {
        let announced = eventually(PATIENCE, "the Event is published", || async {
            let reasons = self.announced(drain).await;
            if reasons.iter().any(|known| known == reason) { Ok(()) } else { bail!("{reasons:?}") }
        });
        announced.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_drain_that_fails_is_failed_everywhere_and_nothing_counts_it_as_stuck() {
    let scene = Scene::alone("failed", PlatformOptions::default()).await;
    let mut stage = Stage { scene, nodes: Vec::new() };
    stage.add_node(0).await;
    let pod = stage.scene.pod("app", PodSpec::watching().on(&stage.nodes[0])).await;
    let app = stage.scene.client_of(&pod).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    let evacuation = stage.scene.reached(&evacuation, 0).await;
    answer(&app, &evacuation, json!({"answer": "Refuse", "message": "a backup runs"})).await.unwrap();
    stage.blocked("d", DrainBlockerReason::Refused, true).await;
    stage.counts(DrainVerdict::Stuck, 1).await;
    stage.counts(DrainVerdict::Failed, 0).await;
    stage.shows("d", DrainVerdict::Stuck).await;
    stage.announces("d", "Stuck").await;

    stage.change("d", json!({"requester": {"deadlineSeconds": 1, "atDeadline": "GiveUp"}})).await;
    let status = stage.until("d", "it fails", |status| status.is_true(DrainConditionType::Failed)).await;
    assert_eq!(status.verdict, Some(DrainVerdict::Failed), "{status:?}");
    assert_eq!(status.nodes[0].verdict, DrainVerdict::Failed, "{status:?}");
    assert!(status.message.as_ref().unwrap().contains("1 pod did not move"), "{status:?}");
    stage.counts(DrainVerdict::Stuck, 0).await;
    stage.counts(DrainVerdict::Failed, 1).await;
    stage.announces("d", "Failed").await;
    let page = stage.shows("d", DrainVerdict::Failed).await;
    for words in ["CORDON AT THE END", "by this drain", "Blockers at the end:", "a backup runs"] {
        assert!(page.contains(words), "{words:?} is not in {page}");
    }
    assert!(!page.contains("Stuck"), "{page}");
    stage.delete("d").await;
    stage.counts(DrainVerdict::Failed, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_is_deleted_before_its_end_is_canceled() {
    let stage = Stage::new("canceled", 1).await;
    let responders = json!([{"name": "self", "timeoutSeconds": 300}]);
    stage.scene.pod("app", PodSpec::registered(&responders).on(&stage.nodes[0])).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    stage.scene.reached(&evacuation, 0).await;
    // The app was asked, and has time to learn that it is not asked any more.
    stage.drains().delete(&stage.name("d"), &DeleteParams::default()).await.unwrap();
    let canceled =
        |status: &evacuation_api::NodeEvacuationStatus| status.verdict == Some(DrainVerdict::Canceled);
    let status = stage.until("d", "it is canceled", canceled).await;
    assert!(status.message.as_ref().unwrap().contains("it was deleted"), "{status:?}");
    stage.shows("d", DrainVerdict::Canceled).await;
    stage.announces("d", "Canceled").await;
    stage.gone("d").await;
}
