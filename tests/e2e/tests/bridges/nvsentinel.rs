//! DrainRequests of NVSentinel. The tests play its node-drainer, and its cordon.

use anyhow::bail;
use controlplane::eventually;
use evacuation_client::Answer;
use evacuation_e2e::{
    PodSpec,
    scene::{PATIENCE, quick},
};
use kube::{ResourceExt, api::ListParams, core::DynamicObject};
use serde_json::{Value, json};

use crate::stage::{Foreign, Stage, has_finalizer, text};

const OURS: &str = "evacuation.dev/drain-request";
const NAME: &str = "drain-gpu-7";

impl Stage {
    fn requests(&self) -> Foreign {
        let kind = ["nvsentinel.nvidia.com", "v1alpha1", "DrainRequest"];
        Foreign::new(self, kind, "drainrequests", Some(self.scene.namespace()))
    }

    /// Creates a DrainRequest of that name for the scene's node. `pods` are names in the scene's namespace.
    async fn request(&self, name: &str, pods: Option<Vec<String>>) -> DynamicObject {
        self.request_held(name, pods, &[]).await
    }

    async fn request_held(
        &self,
        name: &str,
        pods: Option<Vec<String>>,
        finalizers: &[&str],
    ) -> DynamicObject {
        let mut spec = json!({"nodeName": self.node, "checkName": "SysLogsXIDError", "reason": "Xid 79"});
        if let Some(pods) = pods {
            spec["podsToDrain"] = json!({self.scene.namespace(): pods});
        }
        let metadata = json!({"name": name, "finalizers": finalizers});
        self.requests().create(json!({"metadata": metadata, "spec": spec})).await
    }

    /// Waits until a condition of a DrainRequest is True for that reason.
    async fn is_true(&self, name: &str, kind: &str, reason: &str) -> DynamicObject {
        let wanted = |object: &DynamicObject| {
            condition(object, kind)
                .is_some_and(|known| known["status"] == "True" && known["reason"] == reason)
        };
        self.requests().until(name, &format!("{kind} for {reason}"), wanted).await
    }

    /// Waits until a DrainRequest is complete, and no longer held.
    async fn completes(&self, name: &str, reason: &str) {
        self.is_true(name, "DrainComplete", reason).await;
        self.requests().until(name, "it is let go", |found| !has_finalizer(found, OURS)).await;
    }

    async fn asked_pods(&self) -> Vec<String> {
        let all = self.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|evacuation| evacuation.spec.target.pod.name).collect()
    }
}

fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|known| known["type"] == kind)
}

fn is_complete(object: &DynamicObject) -> bool {
    condition(object, "DrainComplete").is_some_and(|known| known["status"] == "True")
}

fn list(pods: &[&str]) -> Vec<String> {
    pods.iter().map(|pod| (*pod).to_owned()).collect()
}

/// A stage whose node NVSentinel has cordoned, with the pod `app`.
async fn cordoned(prefix: &str) -> (Stage, k8s_openapi::api::core::v1::Pod) {
    cordon(Stage::new(prefix).await).await
}

async fn cordon(stage: Stage) -> (Stage, k8s_openapi::api::core::v1::Pod) {
    stage.scene.cordon(&stage.node, true).await;
    let pod = stage.pod("app").await;
    (stage, pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listed_pods_are_asked_and_the_request_is_complete_when_they_are_gone() {
    let (stage, pod) = cordoned("listed").await;
    let other = stage.pod("other").await;
    stage.request(NAME, Some(list(&["app", "gone-long-ago"]))).await;
    let found = stage.is_true(NAME, "DrainInProgress", "Draining").await;
    assert!(has_finalizer(&found, OURS) && !is_complete(&found));
    let evacuation = stage.scene.evacuation_of("app").await;
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(entry.reason.as_deref(), Some("HardwareFault"));
    assert_eq!(entry.message.as_deref(), Some("SysLogsXIDError: Xid 79"));
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    stage.completes(NAME, "DrainComplete").await;
    assert!(!stage.scene.stays(&pod).await && stage.scene.stays(&other).await);
    assert_eq!(stage.asked_pods().await, ["app"]);
    assert!(stage.is_cordoned().await && stage.drains_of_node().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_list_drains_the_node_and_leaves_its_cordon() {
    let (stage, pod) = cordoned("whole").await;
    stage.scene.pod("plain", PodSpec::default().on(&stage.node)).await;
    stage.request(NAME, None).await;
    stage.is_true(NAME, "DrainInProgress", "Draining").await;
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    stage.completes(NAME, "DrainComplete").await;
    assert!(!stage.scene.stays(&pod).await && stage.is_cordoned().await);
    let closed = eventually(PATIENCE, "the drain is closed", || async {
        let left = stage.drains_of_node().await;
        if left.is_empty() { Ok(()) } else { bail!("{}", left[0].name_any()) }
    });
    closed.await.unwrap();
    assert!(stage.is_cordoned().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_deleted_is_taken_back_and_one_of_the_same_name_asks_for_itself() {
    let (stage, pod) = cordoned("again").await;
    stage.request(NAME, Some(list(&["app"]))).await;
    let first = stage.scene.evacuation_of("app").await;
    stage.requests().delete(NAME).await;
    stage.ends("app", "Failed Canceled").await;
    stage.requests().gone(NAME).await;
    assert!(stage.scene.stays(&pod).await);

    stage.request(NAME, Some(list(&["app"]))).await;
    let active = |found: &evacuation_api::Evacuation| found.name_any() != first.name_any();
    let second = eventually(PATIENCE, "the pod is asked again", || async {
        let all = stage.scene.evacuations().list(&ListParams::default()).await?.items;
        match all.into_iter().find(active) {
            Some(found) => Ok(found),
            None => bail!("it is not"),
        }
    });
    let second = second.await.unwrap();
    assert_ne!(first.spec.requesters[0].name, second.spec.requesters[0].name);
    assert!(!is_complete(&stage.requests().api.get(NAME).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_whole_node_that_is_deleted_takes_its_drain_back() {
    let (stage, pod) = cordoned("undone").await;
    stage.request(NAME, None).await;
    stage.scene.evacuation_of("app").await;
    stage.requests().delete(NAME).await;
    stage.ends("app", "Failed Canceled").await;
    stage.requests().gone(NAME).await;
    assert!(stage.scene.stays(&pod).await && stage.is_cordoned().await);
    assert!(stage.drains_of_node().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_keeps_a_request_from_being_complete_and_is_its_message() {
    let (stage, pod) = cordoned("refused").await;
    let _app = stage.scene.app(&pod, |_| async { Answer::refuse("a backup runs") }).await;
    stage.request(NAME, Some(list(&["app"]))).await;
    let found = stage.is_true(NAME, "DrainInProgress", "Blocked").await;
    let message = condition(&found, "DrainInProgress").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("a backup runs"), "{message}");
    assert!(!is_complete(&found) && stage.scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_pod_a_user_keeps_fails_and_is_never_complete() {
    let (stage, pod) = cordoned("kept").await;
    stage.request(NAME, Some(list(&["app"]))).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    stage.scene.withdraw(&evacuation).await.unwrap();
    let found = stage.is_true(NAME, "DrainFailed", "PodsLeftAlone").await;
    assert!(!is_complete(&found) && stage.scene.stays(&pod).await);
    assert_eq!(stage.asked_pods().await, ["app"], "it was asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_request_for_a_node_in_service_asks_nobody_until_the_node_is_cordoned() {
    let stage = Stage::new("stale").await;
    let pod = stage.pod("app").await;
    stage.request(NAME, Some(list(&["app"]))).await;
    let waits = |found: &DynamicObject| text(found, "/status/conditions/0/reason") == "NotQuarantined";
    stage.requests().until(NAME, "it is stale", waits).await;
    assert!(stage.asked_pods().await.is_empty());
    stage.scene.cordon(&stage.node, true).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    stage.scene.cordon(&stage.node, false).await;
    stage.ends("app", "Failed Canceled").await;
    stage.requests().until(NAME, "it is stale again", waits).await;
    assert!(stage.scene.stays(&pod).await);
    assert_eq!(stage.scene.evacuation_of("app").await.name_any(), evacuation.name_any());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_node_that_does_not_exist_is_complete() {
    let mut stage = Stage::new("nodeless").await;
    stage.node = format!("no-{}", stage.node);
    stage.request(NAME, Some(list(&["app"]))).await;
    stage.completes(NAME, "NodeGone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_after_a_crash_takes_a_request_up_and_takes_another_back() {
    let (stage, pod) = cordon(Stage::to_kill("crash").await).await;
    let kept = stage.pod("kept").await;
    stage.request("goes-on", Some(list(&["app"]))).await;
    stage.request("is-deleted", Some(list(&["kept"]))).await;
    stage.scene.evacuation_of("app").await;
    stage.scene.evacuation_of("kept").await;
    stage.kill_controller().await;
    stage.requests().delete("is-deleted").await;
    stage.start_controller().await;
    stage.requests().gone("is-deleted").await;
    stage.ends("kept", "Failed Canceled").await;
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    stage.completes("goes-on", "DrainComplete").await;
    assert!(stage.scene.stays(&kept).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_another_plugin_serves_is_left_to_it() {
    let (stage, pod) = cordoned("plugin").await;
    stage.scene.pod("plain", PodSpec::default().on(&stage.node)).await;
    let plugin = "nvsentinel.nvidia.com/slinky-drainer";
    let created = stage.request_held("theirs", Some(list(&["app"])), &[plugin]).await;
    stage.request("ours", Some(list(&["plain"]))).await;
    stage.completes("ours", "DrainComplete").await;
    let theirs = stage.requests().api.get("theirs").await.unwrap();
    assert_eq!(theirs.resource_version(), created.resource_version(), "nobody wrote it");
    assert_eq!(stage.asked_pods().await, ["plain"]);

    // A plugin that takes a request over later gets it, too.
    stage.request("later", Some(list(&["app"]))).await;
    stage.scene.evacuation_of("app").await;
    stage.requests().change("later", json!({"metadata": {"finalizers": [OURS, plugin]}})).await;
    stage.requests().until("later", "it is let go", |found| !has_finalizer(found, OURS)).await;
    stage.ends("app", "Failed Canceled").await;
    assert!(stage.scene.stays(&pod).await);
    for name in ["theirs", "later"] {
        stage.requests().change(name, json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_huge_content_holds_up_no_other_drain() {
    let (stage, _pod) = cordoned("huge").await;
    let names =
        (0..20_000).map(|number| format!("pod-that-does-not-exist-{number}")).chain(["app".to_owned()]);
    stage.request("huge", Some(names.collect())).await;
    let other = Stage::new("beside").await;
    let pod = other.scene.pods.create("plain", &quick(PodSpec::default()).on(&other.node)).await.unwrap();
    other.scene.cordon(&other.node, true).await;
    other.request(NAME, None).await;
    other.completes(NAME, "DrainComplete").await;
    assert!(!other.scene.stays(&pod).await);
    stage.scene.evacuation_of("app").await;
    assert!(!is_complete(&stage.requests().api.get("huge").await.unwrap()));
}
