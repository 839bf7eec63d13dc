//! Kubernetes' HorizontalPodAutoscaler scales the example kind by its subresource `scale`.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by them")]

use std::time::Duration;

use controlplane::eventually;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use machinery_conformance::Platform;
use serde_json::{Value, json};

const NAMESPACE: &str = "autoscaling";
/// Maximum time of one step of the autoscaler on a busy machine.
const STEP: Duration = Duration::from_mins(2);

/// A fleet of a group, and its autoscaler.
struct Scaled {
    group: &'static str,
    fleets: Api<DynamicObject>,
    autoscalers: Api<HorizontalPodAutoscaler>,
}

impl Scaled {
    fn new(client: &Client, group: &'static str) -> Self {
        let fleet = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", "Fleet"));
        let fleets = Api::namespaced_with(client.clone(), NAMESPACE, &fleet);
        Self { group, fleets, autoscalers: Api::namespaced(client.clone(), NAMESPACE) }
    }

    /// Creates a fleet of one vehicle, and an autoscaler that wants three to five.
    async fn create(&self) {
        let fleet = json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Fleet", "metadata": {"name": "a"},
            "spec": {"depot": "north", "replicas": 1},
        });
        let fleet = serde_json::from_value(fleet).expect("a fleet");
        self.fleets.create(&PostParams::default(), &fleet).await.expect("created");
        let status = Patch::Merge(json!({"status": {"replicas": 1, "selector": "fleet=a"}}));
        self.fleets.patch_status("a", &PatchParams::default(), &status).await.expect("a status");
        let autoscaler = json!({
            "metadata": {"name": self.group},
            "spec": {
                "scaleTargetRef": {"apiVersion": format!("{}/v1", self.group), "kind": "Fleet", "name": "a"},
                "minReplicas": 3, "maxReplicas": 5,
            },
        });
        let autoscaler = serde_json::from_value(autoscaler).expect("an autoscaler");
        self.autoscalers.create(&PostParams::default(), &autoscaler).await.expect("created");
    }

    async fn limit(&self, min: i32, max: i32) {
        let limits = Patch::Merge(json!({"spec": {"minReplicas": min, "maxReplicas": max}}));
        self.autoscalers.patch(self.group, &PatchParams::default(), &limits).await.expect("patched");
    }

    /// Waits until the fleet has that number of vehicles. Returns who owns the number, and how.
    async fn reaches(&self, replicas: i64) -> Vec<String> {
        let check = || async {
            let fleet = self.fleets.get("a").await.map_err(|error| error.to_string())?;
            let found = fleet.data.pointer("/spec/replicas").and_then(Value::as_i64);
            if found == Some(replicas) { Ok(fleet) } else { Err(format!("{found:?}: {}", self.seen().await)) }
        };
        let what = format!("{} is scaled to {replicas}", self.group);
        let fleet = eventually(STEP, &what, check).await.expect("in time");
        let entries = fleet.metadata.managed_fields.unwrap_or_default();
        let owns = |fields: &Value| fields.pointer("/f:spec/f:replicas").is_some();
        let owners =
            entries.into_iter().filter(|entry| entry.fields_v1.as_ref().is_some_and(|all| owns(&all.0)));
        let text = Option::unwrap_or_default;
        owners
            .map(|owner| {
                format!("{} {} {}", text(owner.manager), text(owner.operation), text(owner.subresource))
            })
            .collect()
    }

    /// Waits until the autoscaler has that condition. Returns all, without their messages.
    async fn condition(&self, kind: &str, reason: &str) -> Vec<String> {
        let check = || async {
            let conditions = self.conditions().await;
            let found = conditions.iter().any(|line| line.starts_with(kind) && line.ends_with(reason));
            if found { Ok(conditions) } else { Err(self.seen().await) }
        };
        eventually(STEP, &format!("{}: {kind} is {reason}", self.group), check).await.expect("in time")
    }

    async fn conditions(&self) -> Vec<String> {
        let autoscaler = self.autoscalers.get(self.group).await.expect("an autoscaler");
        let conditions = autoscaler.status.and_then(|status| status.conditions).unwrap_or_default();
        let line = |reason: Option<String>| reason.unwrap_or_default();
        conditions
            .into_iter()
            .map(|one| format!("{} {} {}", one.type_, one.status, line(one.reason)))
            .collect()
    }

    /// Conditions with their messages, for a failure.
    async fn seen(&self) -> String {
        let autoscaler = self.autoscalers.get(self.group).await.ok();
        format!("{:?}", autoscaler.and_then(|found| found.status).and_then(|status| status.conditions))
    }
}

/// Without a metrics server, the autoscaler scales to its limits only. What it would make of metrics does not
/// depend on the kind: it reads them for the pods of the scale's selector.
#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_keeps_the_example_kind_in_its_limits_as_it_does_a_custom_resource() {
    let platform = Platform::start().await.expect("a platform");
    platform.sides(NAMESPACE).await.expect("a namespace");
    platform.control_plane().controller_manager().start().await.expect("started");
    let client = platform.control_plane().client().expect("a client");
    let kinds =
        [Scaled::new(&client, "example.machinery.dev"), Scaled::new(&client, "conform.machinery.dev")];
    let mut seen = Vec::new();
    for kind in &kinds {
        kind.create().await;
        let raised = kind.reaches(3).await;
        assert_eq!(raised, ["kube-controller-manager Update scale"], "{}", kind.group);
        let without_metrics = kind.condition("ScalingActive", "FailedGetResourceMetric").await;
        kind.limit(1, 2).await;
        let lowered = kind.reaches(2).await;
        seen.push((raised, without_metrics, lowered));
    }
    assert_eq!(seen.first(), seen.last(), "both kinds are the same to the autoscaler");
    let owner = kinds.first().expect("ours").fleets.get("a").await.expect("a fleet");
    assert_eq!(owner.metadata.generation, Some(3), "each step is one change");
}
