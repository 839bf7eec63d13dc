//! NodeMaintenances of medik8s.

use std::time::Duration;

use evacuation_api::{CORDONED_BY_ANNOTATION, DrainConditionType};
use evacuation_client::Answer;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
    core::DynamicObject,
};
use serde_json::{Value, json};

use crate::stage::{Foreign, Stage, has_finalizer, text};

const OURS: &str = "evacuation.dev/node-maintenance";
const OPERATORS: &str = "foregroundDeleteNodeMaintenance";
const LABEL: &str = "remediation.medik8s.io/exclude-from-remediation";

impl Stage {
    pub(crate) fn maintenances(&self) -> Foreign {
        let kind = ["nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance"];
        Foreign::new(self, kind, "nodemaintenances", None)
    }

    /// The name of this scene's NodeMaintenance.
    pub(crate) fn maintenance(&self) -> String {
        format!("nm-{}", self.scene.namespace())
    }

    /// Creates the NodeMaintenance of the scene's node.
    pub(crate) async fn maintain(&self, finalizers: &[&str]) -> DynamicObject {
        let metadata = json!({"name": self.maintenance(), "finalizers": finalizers});
        let spec = json!({"nodeName": self.node, "reason": "a new\u{1b}[31m kernel"});
        self.maintenances().create(json!({"metadata": metadata, "spec": spec})).await
    }

    /// Waits until the NodeMaintenance is in a phase, with an error that contains that text.
    pub(crate) async fn in_phase(&self, phase: &str, error: &str) -> DynamicObject {
        let wanted = |found: &DynamicObject| {
            text(found, "/status/phase") == phase && text(found, "/status/lastError").contains(error)
        };
        self.maintenances().until(&self.maintenance(), phase, wanted).await
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.scene.admin(), "medik8s-leases")
    }

    pub(crate) async fn lease_holder(&self) -> Option<String> {
        let lease = self.leases().get_opt(&format!("node-{}", self.node)).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity)
    }

    /// Another controller of medik8s takes the node's lease.
    async fn lease_to(&self, holder: &str) {
        let name = format!("node-{}", self.node);
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now});
        let lease = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        self.leases().create(&PostParams::default(), &lease).await.unwrap();
    }

    async fn is_excluded(&self) -> bool {
        self.nodes().get(&self.node).await.unwrap().labels().contains_key(LABEL)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_maintenance_is_drained_and_its_end_puts_the_node_back() {
    let stage = Stage::new("drained").await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(entry.reason.as_deref(), Some("NodeMaintenance"));
    assert_eq!(entry.message.as_deref(), Some("a new[31m kernel"));
    let name = stage.maintenance();
    let pending = |found: &DynamicObject| found.data.pointer("/status/pendingPods") == Some(&json!(["app"]));
    let running = stage.maintenances().until(&name, "the pod is pending", pending).await;
    assert_eq!(text(&running, "/status/pendingPodsRefs/0/namespace"), stage.scene.namespace());
    assert_eq!(running.data.pointer("/status/evictionPods"), Some(&json!(1)));
    assert!(stage.is_cordoned().await && stage.is_excluded().await);
    assert_eq!(stage.lease_holder().await.as_deref(), Some("evacuation.dev"));

    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    let done = stage.in_phase("Succeeded", "").await;
    assert_eq!(done.data.pointer("/status/drainProgress"), Some(&json!(100)));
    assert_eq!(done.data.pointer("/status/pendingPods"), Some(&json!([])));
    stage.maintenances().delete(&name).await;
    stage.maintenances().gone(&name).await;
    assert!(!stage.is_cordoned().await && !stage.is_excluded().await);
    assert_eq!(stage.lease_holder().await, None);
    assert!(stage.drains_of_node().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_that_is_deleted_takes_its_requests_back_and_leaves_an_older_cordon() {
    let stage = Stage::new("deleted").await;
    stage.scene.cordon(&stage.node, true).await;
    let pod = stage.pod("app").await;
    let app = stage.scene.app(&pod, |_| async { Answer::delay(Duration::from_mins(10)) }).await;
    stage.maintain(&[]).await;
    stage.scene.answered(&stage.scene.evacuation_of("app").await, evacuation_api::Answer::Delay).await;
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.ends("app", "Failed Canceled").await;
    stage.maintenances().gone(&stage.maintenance()).await;
    assert!(stage.scene.stays(&pod).await && stage.is_cordoned().await);
    drop(app);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_the_error_of_a_maintenance_that_goes_on() {
    let stage = Stage::new("refused").await;
    let pod = stage.pod("app").await;
    let _app = stage.scene.app(&pod, |_| async { Answer::refuse("a backup runs") }).await;
    stage.maintain(&[]).await;
    stage.in_phase("Running", "a backup runs").await;
    assert!(stage.scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_a_user_deletes_fails_its_maintenance_and_is_not_opened_again() {
    let stage = Stage::new("dismissed").await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    stage.scene.evacuation_of("app").await;
    let drain = stage.drains_of_node().await.remove(0);
    stage.drains().delete(&drain.name_any(), &DeleteParams::default()).await.unwrap();
    stage.in_phase("Failed", "the drain was deleted").await;
    stage.ends("app", "Failed Canceled").await;
    // A change of the object makes the bridge decide again.
    let name = stage.maintenance();
    stage.maintenances().change(&name, json!({"spec": {"reason": "again"}})).await;
    stage.maintenances().delete(&name).await;
    stage.maintenances().gone(&name).await;
    assert!(stage.scene.stays(&pod).await && stage.drains_of_node().await.is_empty());
    assert_eq!(stage.lease_holder().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_of_a_node_that_does_not_exist_fails() {
    let mut stage = Stage::new("missing").await;
    stage.node = format!("no-{}", stage.node);
    stage.maintain(&[]).await;
    stage.in_phase("Failed", "not found").await;
    assert!(stage.drains_of_node().await.is_empty());
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.maintenances().gone(&stage.maintenance()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_waits_for_the_lease_that_another_controller_holds() {
    let stage = Stage::new("leased").await;
    stage.lease_to("node-healthcheck").await;
    stage.maintain(&[]).await;
    stage.in_phase("Running", "held by node-healthcheck").await;
    assert!(stage.drains_of_node().await.is_empty() && !stage.is_cordoned().await);
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.maintenances().gone(&stage.maintenance()).await;
    assert_eq!(stage.lease_holder().await.as_deref(), Some("node-healthcheck"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_after_a_crash_takes_a_maintenance_up() {
    let stage = Stage::to_kill("crash").await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    stage.scene.evacuation_of("app").await;
    stage.kill_controller().await;
    stage.start_controller().await;
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    stage.in_phase("Succeeded", "").await;
    assert_eq!(stage.drains_of_node().await.len(), 1, "the same drain went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_that_is_deleted_while_no_controller_runs_is_taken_back_by_the_next() {
    let stage = Stage::to_kill("down").await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    stage.scene.evacuation_of("app").await;
    stage.kill_controller().await;
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.start_controller().await;
    stage.maintenances().gone(&stage.maintenance()).await;
    stage.ends("app", "Failed Canceled").await;
    assert!(stage.scene.stays(&pod).await && !stage.is_cordoned().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_of_the_operator_is_left_alone() {
    let stage = Stage::new("operator").await;
    stage.pod("app").await;
    let (name, foreign) = (stage.maintenance(), stage.maintenances());
    let created = stage.maintain(&[OPERATORS]).await;
    foreign.event(&name, "OperatorFound").await;
    let found = foreign.api.get(&name).await.unwrap();
    assert_eq!((found.resource_version(), found.data.get("status")), (created.resource_version(), None));
    assert!(stage.drains_of_node().await.is_empty());
    foreign.change(&name, json!({"metadata": {"finalizers": null}})).await;
    foreign.delete(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_appears_gets_the_node_as_it_is_and_the_requests_are_taken_back() {
    let stage = Stage::new("appears").await;
    let pod = stage.pod("app").await;
    let (name, foreign) = (stage.maintenance(), stage.maintenances());
    stage.maintain(&[]).await;
    stage.in_phase("Running", "").await;
    stage.scene.evacuation_of("app").await;
    let finalizers: Value = json!({"metadata": {"finalizers": [OURS, OPERATORS]}});
    foreign.change(&name, finalizers).await;
    foreign.until(&name, "the bridge lets go", |found| !has_finalizer(found, OURS)).await;
    stage.ends("app", "Failed Canceled").await;
    assert!(stage.scene.stays(&pod).await && stage.is_cordoned().await, "the cordon is the operator's");
    assert!(stage.drains_of_node().await.is_empty());
    assert_eq!((stage.lease_holder().await, stage.is_excluded().await), (None, false));
    let node = stage.nodes().get(&stage.node).await.unwrap();
    assert!(!node.annotations().contains_key(CORDONED_BY_ANNOTATION));
    foreign.change(&name, json!({"metadata": {"finalizers": null}})).await;
    foreign.delete(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_maintenances_of_a_node_share_its_cordon_and_its_lease() {
    let stage = Stage::new("shared").await;
    stage.maintain(&[]).await;
    let second = format!("second-{}", stage.maintenance());
    let spec = json!({"nodeName": stage.node});
    stage.maintenances().create(json!({"metadata": {"name": second}, "spec": spec})).await;
    for name in [&stage.maintenance(), &second] {
        let drained = |found: &DynamicObject| text(found, "/status/phase") == "Succeeded";
        stage.maintenances().until(name, "it is drained", drained).await;
    }
    let drains = stage.drains_of_node().await;
    let is_drained =
        |status: &evacuation_api::NodeEvacuationStatus| status.is_true(DrainConditionType::Drained);
    assert_eq!(drains.iter().filter(|drain| drain.status.as_ref().is_some_and(is_drained)).count(), 2);
    stage.maintenances().delete(&second).await;
    stage.maintenances().gone(&second).await;
    assert!(stage.is_cordoned().await && stage.is_excluded().await);
    assert_eq!(stage.lease_holder().await.as_deref(), Some("evacuation.dev"));
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.maintenances().gone(&stage.maintenance()).await;
    assert!(!stage.is_cordoned().await && !stage.is_excluded().await);
}
