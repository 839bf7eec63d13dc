//! Lifecycle conditions of nodes that administrators wrote, beside drains of ours.

use controlplane::AuditEvent;
use evacuation_api::{
    DrainBlockerReason, DrainVerdict, DrainedNodePhase, MarkedNodePhase, NodeEvacuationStatus,
};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{Bystander, CONTROLLER, quick},
};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::nodes::{Stage, condition, phases};

/// The types of KEP-5683 that drains of ours write as well.
const KINDS: [&str; 4] = ["MaintenancePlanned", "MaintenanceInProgress", "DrainInProgress", "Drained"];

impl Stage {
    /// Writes a condition of a node as an administrator does.
    async fn administer(&self, number: usize, kind: &str, status: &str) {
        let time = chrono::Utc::now().to_rfc3339();
        let condition = json!({"type": kind, "status": status, "reason": "AdminRequested",
            "message": "rack 7 is moved", "lastTransitionTime": time});
        self.conditions(number, &json!([condition])).await;
    }

    async fn conditions(&self, number: usize, conditions: &Value) {
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        self.node_api().patch_status(&self.nodes[number], &PatchParams::default(), &patch).await.unwrap();
    }

    /// The patches of a node's status by the controller.
    fn marks_by_the_controller(&self, number: usize) -> Vec<AuditEvent> {
        let mut all = self.scene.control_plane().audit_events().unwrap();
        all.retain(|event| {
            (event.resource(), event.subresource()) == ("nodes", "status")
                && event.name() == self.nodes[number]
                && event.user() == CONTROLLER
        });
        all
    }

    /// Waits until a condition of a node has that status.
    async fn says(&self, number: usize, kind: &str, status: &str) {
        let wanted = |node: &Node| condition(node, kind).as_deref() == Some(status);
        self.node_until(number, &format!("{kind} is {status}"), wanted).await;
    }
}

/// The conditions of a node that an administrator wrote.
fn administered(node: &Node) -> Vec<NodeCondition> {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let theirs = all.into_iter().filter(|condition| condition.reason.as_deref() == Some("AdminRequested"));
    theirs.map(|condition| NodeCondition { last_heartbeat_time: None, ..condition.clone() }).collect()
}

/// A drain reports by conditions whose types an administrator may use, too.
///
/// # Attack
///
/// - Attacker: a user who may drain nodes
/// - Act: drains a node, and undoes it, whose conditions an administrator wrote
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn the_conditions_of_an_administrator_outlive_a_drain_of_ours_and_a_new_controller() {
    let scene = Scene::alone("marks", PlatformOptions::default()).await;
    let mut stage = Stage { scene, nodes: Vec::new() };
    let bystander = Bystander::new(&stage.scene).await;
    for number in 0..3 {
        stage.add_node(number).await;
    }
    // Node 0 is drained, node 1 is in no drain, and node 2 has conditions of ours.
    for (number, status) in [(0, "True"), (0, "False"), (1, "True")] {
        let kinds = if status == "False" { &KINDS[2..] } else { &KINDS[..] };
        for kind in kinds {
            stage.administer(number, kind, status).await;
        }
    }
    let before = [administered(&stage.node(0).await), administered(&stage.node(1).await)];
    assert_eq!(before.each_ref().map(Vec::len), [4, 4]);

    stage.scene.pod("app", quick(PodSpec::default()).on(&stage.nodes[0])).await;
    stage.drain("d", &[0, 2], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.drained("d").await;
    for kind in ["Drained", "MaintenanceInProgress"] {
        stage.says(2, kind, "True").await;
    }
    stage.says(2, "MaintenancePlanned", "False").await;

    stage.scene.kill_controller();
    stage.scene.start_controller().await;
    bystander.drains(&stage.scene).await;
    stage.delete("d").await;
    for kind in KINDS.iter().filter(|kind| **kind != "DrainInProgress") {
        stage.says(2, kind, "False").await;
    }
    for (number, before) in before.iter().enumerate() {
        assert_eq!(&administered(&stage.node(number).await), before);
        assert_eq!(stage.marks_by_the_controller(number).len(), 0);
    }
    assert!(!stage.marks_by_the_controller(2).is_empty(), "the log has the patches of the controller");
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_that_an_administrator_plans_opens_a_drain_and_one_that_a_drain_plans_does_not() {
    let stage = Stage::new("planned", 2).await;
    let rule = json!({"marks": [{"condition": {"type": "MaintenancePlanned"}}]});
    stage.rule("planned", rule).await;
    // Drains of ours announce their maintenance by the same condition.
    stage.drain("mine", &[1], json!({"paused": true})).await;
    stage.says(1, "MaintenancePlanned", "True").await;
    stage.administer(0, "MaintenancePlanned", "True").await;
    let drained = [MarkedNodePhase::Drained];
    let status = stage
        .rule_until("planned", "the node is drained", |status| {
            status.nodes.iter().map(|node| node.phase).eq(drained)
        })
        .await;
    assert_eq!(status.nodes[0].name, stage.nodes[0]);
    assert_eq!(condition(&stage.node(0).await, "MaintenancePlanned").as_deref(), Some("True"));

    stage.administer(0, "MaintenancePlanned", "False").await;
    stage.rule_until("planned", "no node is marked", |status| status.nodes.is_empty()).await;
    stage.says(0, "Drained", "False").await;
    assert_eq!(administered(&stage.node(0).await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_leaves_pods_to_the_kubelet_of_a_node_that_shuts_down() {
    let stage = Stage::new("shutdown", 2).await;
    stage.administer(0, "GracefulNodeShutdownInProgress", "True").await;
    for number in [0, 1] {
        let spec = quick(PodSpec::default()).on(&stage.nodes[number]);
        stage.scene.pod(&format!("app-{number}"), spec).await;
    }
    stage.drain("d", &[0, 1], json!({"pods": {"unmanaged": "Evict"}})).await;
    let left = |status: &NodeEvacuationStatus| {
        status.verdict == Some(DrainVerdict::Slow)
            && status.blockers.iter().any(|b| b.reason == DrainBlockerReason::NodeShuttingDown.as_str())
    };
    stage.until("d", "a pod is left to the kubelet", left).await;
    let moved = |status: &_| phases(status)[1] == DrainedNodePhase::Drained;
    stage.until("d", "the other node is drained", moved).await;
    assert_eq!(stage.scene.evictions("app-0").len(), 0);

    // A shutdown that is called off leaves the pod to the drain.
    stage.administer(0, "GracefulNodeShutdownInProgress", "False").await;
    stage.drained("d").await;
    assert_eq!(stage.scene.evictions("app-0").len(), 1);
}
