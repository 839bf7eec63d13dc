//! Nodes whose kubelet does not report, and the commands by which their pods go.

use evacuation_api::{DrainBlockerReason, NodeEvacuation};
use evacuation_e2e::{PodSpec, Scene};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    person::Person,
    room::{drain_of, drained, status, stuck},
    scene,
};

/// Makes pods on a dead node: they ran, and the control plane took their readiness away.
async fn lost_pods(scene: &Scene, node: &str, names: &[&str]) -> Vec<Pod> {
    let now = Timestamp::now().to_string();
    let unready =
        json!({"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now});
    let ran = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [unready]}}));
    let mut pods = Vec::new();
    for name in names {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app"}]},
        });
        scene.raw_pod(&pod).await;
        pods.push(scene.pods.api().patch_status(name, &PatchParams::default(), &ran).await.unwrap());
    }
    pods
}

fn drain(node: &str) -> String {
    format!("kubectl evacuate node {node} --force --detach --grace-period=1")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_of_a_node_that_is_off_goes_by_the_taint_that_the_drain_names() {
    let scene = scene("off").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.dead_node().await;
    let pods = lost_pods(&scene, &node, &["app"]).await;
    ann.runs(&drain(&node)).await;
    stuck(&scene, &node, DrainBlockerReason::NodeUnreachable, 1).await;
    let command = ann.reads(&status(&node), "kubectl taint node ").await;
    assert!(command.contains("node.kubernetes.io/out-of-service"), "{command}");
    ann.runs(&command).await;
    scene.pods.gone(&pods[0]).await.unwrap();
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_without_the_pod_of_a_node_that_does_not_report() {
    let scene = scene("silent").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.dead_node().await;
    let pods = lost_pods(&scene, &node, &["app"]).await;
    ann.runs(&drain(&node)).await;
    stuck(&scene, &node, DrainBlockerReason::NodeUnreachable, 1).await;
    let command = ann.reads(&status(&node), "kubectl evacuate set ").await;
    assert!(command.contains("--skip-wait-for-delete-timeout"), "{command}");
    ann.runs(&command).await;
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.skipped, status.pods.gone), (1, 0), "the pod is not gone: {status:?}");
    let found = scene.pods.api().get("app").await.unwrap();
    assert_eq!(found.uid(), pods[0].uid());
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// Each of the two pods waits for the other, which never becomes ready. The third pod of their budget runs
/// elsewhere, and is never touched.
#[tokio::test(flavor = "multi_thread")]
async fn two_pods_of_a_budget_on_a_dead_node_are_stuck_and_go_by_the_commands_that_are_named() {
    let scene = scene("both").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let (living, node) = (scene.own_node().await, scene.dead_node().await);
    let other = scene.pod("other", PodSpec::default().label("app", "web").on(&living)).await;
    let pods = lost_pods(&scene, &node, &["web-0", "web-1"]).await;
    scene.floor("web", ("app", "web"), 2).await;
    ann.runs(&drain(&node)).await;
    stuck(&scene, &node, DrainBlockerReason::ReplacementUnready, 2).await;

    // The drain can be ended.
    let name = drain_of(&scene, &node).await.name_any();
    let message = format!("kubectl get nodeevac {name} -o jsonpath='{{.status.blockers[0].message}}'");
    let command = ann.reads(&message, "kubectl evacuate cancel ").await;
    ann.runs(&command).await;
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    assert!(drains.get_opt(&name).await.unwrap().is_none());
    for pod in &pods {
        assert!(scene.stays(pod).await);
    }

    // Or their budget can let them go.
    ann.runs(&drain(&node)).await;
    stuck(&scene, &node, DrainBlockerReason::ReplacementUnready, 2).await;
    let why = |pod: &str| format!("kubectl evacuate why {pod} -n {}", scene.namespace());
    let command = bob.reads(&why("web-0"), "kubectl patch poddisruptionbudget ").await;
    bob.runs(&command).await;
    stuck(&scene, &node, DrainBlockerReason::NodeUnreachable, 2).await;
    let command = ann.reads(&status(&node), "kubectl taint node ").await;
    ann.runs(&command).await;
    for pod in &pods {
        scene.pods.gone(pod).await.unwrap();
    }
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.total, status.pods.gone), (2, 2), "{status:?}");
    assert!(scene.stays(&other).await, "no other pod was taken");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
