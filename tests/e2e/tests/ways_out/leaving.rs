//! Pods that terminate and do not go, and the commands that end or skip them.

use chrono::TimeDelta;
use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{PodSpec, Scene, scene::until_time, workload};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    budgets::{limit, placed, take_in},
    person::Person,
    policy::RejectingPolicy,
    room::{self, drained, held, status, stuck, stuck_beside},
    scene,
};

/// A node with one pod, `app`.
struct Stage {
    node: String,
    pod: Pod,
}

impl Stage {
    /// Starts a drain of the node that gives pods a second.
    async fn new(scene: &Scene, ann: &Person<'_>, spec: PodSpec, finalizers: &[&str]) -> Self {
        let node = scene.own_node().await;
        let pod = scene.pod("app", spec.on(&node)).await;
        scene.finalizers(&pod, finalizers).await;
        ann.runs(&format!("kubectl evacuate node {node} --force --detach --grace-period=1")).await;
        scene.pod_until(&pod, "it terminates", |pod| pod.metadata.deletion_timestamp.is_some()).await;
        Self { node, pod }
    }

    /// Asserts that the pod is there, and that the drain does not call it gone.
    async fn left_out(&self, scene: &Scene) {
        let status = drained(scene, &self.node).await;
        assert_eq!((status.pods.skipped, status.pods.gone), (1, 0), "the pod is not gone: {status:?}");
        scene.pod_until(&self.pod, "it is there", |pod| pod.metadata.uid == self.pod.metadata.uid).await;
    }
}

fn why(scene: &Scene) -> String {
    format!("kubectl evacuate why app -n {}", scene.namespace())
}

/// A pod that terminates for an hour.
fn slow() -> PodSpec {
    PodSpec::default().annotation("controlplane.test/gone-after", "1h")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_finalizer_keeps_goes_by_the_change_that_the_team_reads() {
    let scene = scene("finalizer").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let stage = Stage::new(&scene, &ann, PodSpec::default(), &["example.com/a", "example.com/b"]).await;
    held(&scene, &stage.node, DrainBlockerReason::Finalizer).await;
    let command = bob.reads(&why(&scene), "kubectl patch pod ").await;
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot patch resource \"pods\""), "who drains may not change pods: {refused}");
    bob.runs(&command).await;
    scene.pods.gone(&stage.pod).await.unwrap();
    let status = drained(&scene, &stage.node).await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    ann.runs(&format!("kubectl evacuate cancel {}", stage.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_without_the_pod_that_a_finalizer_keeps() {
    let scene = scene("without").await;
    let ann = Person::drainer(&scene, "ann").await;
    let stage = Stage::new(&scene, &ann, PodSpec::default(), &["example.com/hold"]).await;
    held(&scene, &stage.node, DrainBlockerReason::Finalizer).await;
    let command = ann.reads(&status(&stage.node), "kubectl evacuate set ").await;
    ann.runs(&command).await;
    stage.left_out(&scene).await;
    ann.runs(&format!("kubectl evacuate cancel {}", stage.node)).await;
    scene.finalizers(&stage.pod, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_without_the_pod_that_terminates_for_long() {
    let scene = scene("long").await;
    let ann = Person::drainer(&scene, "ann").await;
    let stage = Stage::new(&scene, &ann, slow(), &[]).await;
    held(&scene, &stage.node, DrainBlockerReason::Terminating).await;
    let command = ann.reads(&status(&stage.node), "kubectl evacuate set ").await;
    ann.runs(&command).await;
    stage.left_out(&scene).await;
    ann.runs(&format!("kubectl evacuate cancel {}", stage.node)).await;
}

/// The pod terminated before the drain began, so that no request names the drain.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_names_itself_also_for_a_pod_that_another_deleted() {
    let scene = scene("before").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    let pod = scene.pod("app", slow().on(&node)).await;
    let delete = format!("kubectl delete pod app -n {} --grace-period=1 --wait=false", scene.namespace());
    bob.runs(&delete).await;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach")).await;
    held(&scene, &node, DrainBlockerReason::Terminating).await;
    let command = ann.reads(&status(&node), "kubectl evacuate set ").await;
    ann.runs(&command).await;
    Stage { node: node.clone(), pod }.left_out(&scene).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_terminates_for_long_is_ended_by_the_deletion_that_the_team_reads() {
    let scene = scene("forced").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let stage = Stage::new(&scene, &ann, slow(), &[]).await;
    held(&scene, &stage.node, DrainBlockerReason::Terminating).await;
    let command = bob.reads(&why(&scene), "kubectl delete pod ").await;
    let right = json!({"group": "", "resource": "pods", "verb": "delete"});
    scene.decided(&ann.name, &right, false).await;
    bob.runs(&command).await;
    scene.pods.gone(&stage.pod).await.unwrap();
    drained(&scene, &stage.node).await;
    ann.runs(&format!("kubectl evacuate cancel {}", stage.node)).await;
}

/// A StatefulSet creates a pod again when the old one is gone, and only then does its budget let another go.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_for_another_that_never_ends_goes_by_the_change_that_the_team_reads() {
    let scene = scene("peer").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    take_in(&scene, &node).await;
    let mut web = placed(&scene, workload("web", 2, &json!({"controlplane.test/gone-after": "100ms"})));
    web["spec"]["serviceName"] = json!("web");
    // The new pods need a node that is not drained, and which the first ones do not have.
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({scene.namespace(): "1"});
    scene.create::<StatefulSet>(web).await;
    let pods = scene.ready_pods("web", 2, &[]).await;
    let [first, hung] =
        ["web-0", "web-1"].map(|name| pods.iter().find(|pod| pod.name_any() == name).unwrap());
    take_in(&scene, "node-1").await;
    limit(&scene, "web", json!({"maxUnavailable": 1})).await;
    scene.finalizers(hung, &["example.com/hold"]).await;
    scene.delete_pod("web-1").await;
    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    let blocker = stuck_beside(&scene, &node, DrainBlockerReason::ReplacementTerminating).await;
    assert_eq!(blocker.pod, Some(format!("{}/web-0", scene.namespace())), "{blocker:?}");
    assert_eq!(blocker.object.as_deref(), Some("Pod/web-1"), "{blocker:?}");
    let why = format!("kubectl evacuate why web-0 -n {}", scene.namespace());
    let command = bob.reads(&why, "kubectl patch pod web-1 ").await;
    assert!(scene.stays(first).await);
    bob.runs(&command).await;
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// The pod garbage collection gives a pod the phase Failed before it deletes it, and a policy rejects that.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_stays_on_a_deleted_node_goes_by_the_deletion_that_the_drain_names() {
    let scene = scene("lost").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    let pod = scene.pod("app", PodSpec::default().label("app", "app").on(&node)).await;
    scene.floor("app", ("app", "app"), 1).await;
    let pods = scene.pods.api();
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let failed = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let fails = || async { pods.patch_status("app", &dry, &failed).await.map(drop) };
    let may = "object.status.phase != 'Failed'";
    let policy = RejectingPolicy::start(&scene, "pods/status", "app", may, fails).await;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach")).await;
    held(&scene, &node, DrainBlockerReason::BudgetAllowsNone).await;

    let nodes: Api<Node> = Api::all(scene.admin());
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
    let blocker = room::slow(&scene, &node, DrainBlockerReason::NodeDeleted).await;
    let waits = "nothing is needed, because Kubernetes removes the pod by ";
    assert!(blocker.message.contains(waits), "{}", blocker.message);
    // The drain gives Kubernetes 90 s.
    until_time(blocker.since.0 + TimeDelta::seconds(80)).await;
    stuck(&scene, &node, DrainBlockerReason::NodeDeleted, 1).await;
    let command = ann.reads(&status(&node), "kubectl delete pod app ").await;
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot delete resource \"pods\""), "{refused}");
    assert!(scene.stays(&pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    policy.remove().await;
}
