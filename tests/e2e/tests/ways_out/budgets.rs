//! Budgets that hold a pod for ever, and the commands that their messages name.

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{PodSpec, Scene};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{ResourceExt, api::ListParams};

use crate::{
    person::Person,
    room::{drained, status, stuck},
    scene,
};

/// A node with one pod, `app`, that budgets of these names select. None of them allows a disruption.
async fn guarded(scene: &Scene, budgets: &[&str], ready: bool) -> (String, Pod) {
    let node = scene.own_node().await;
    let spec = PodSpec::default().label("app", "app").on(&node);
    let pod = scene.pod("app", spec).await;
    for name in budgets {
        scene.floor(name, ("app", "app"), 1).await;
    }
    if !ready {
        let annotations = serde_json::json!({"controlplane.test/ready": "false"});
        scene.annotate(&pod, &annotations).await;
        scene.pod_until(&pod, "it is not ready", |pod| !evacuation_e2e::is_ready(pod)).await;
    }
    (node, pod)
}

fn why(scene: &Scene) -> String {
    format!("kubectl evacuate why app -n {}", scene.namespace())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_two_budgets_goes_when_the_team_deletes_the_budget_that_why_names() {
    let scene = scene("twice").await;
    let bob = Person::editor(&scene, "bob").await;
    let (_, pod) = guarded(&scene, &["one", "two"], true).await;
    scene.lower("one", 0).await;
    bob.runs(&format!("kubectl create evacuation app -n {}", scene.namespace())).await;
    let command = bob.reads(&why(&scene), "kubectl delete poddisruptionbudget ").await;
    assert!(scene.stays(&pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    let budgets = scene.api::<PodDisruptionBudget>().list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = budgets.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, ["one"], "one budget is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_passes_two_budgets_by_the_deletion_that_it_names() {
    let scene = scene("past").await;
    let ann = Person::drainer(&scene, "ann").await;
    let (node, pod) = guarded(&scene, &["one", "two"], true).await;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach")).await;
    stuck(&scene, &node, DrainBlockerReason::MultipleBudgets, 1).await;
    let command = ann.reads(&status(&node), "kubectl create evacuation ").await.replace("10m", "1s");
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot delete resource \"pods\""), "{refused}");
    assert!(scene.stays(&pod).await);
    ann.may_delete_pods().await;
    ann.runs_once_allowed(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nobody_asked_goes_past_its_budget_by_the_request_that_why_names() {
    let scene = scene("unasked").await;
    let bob = Person::editor(&scene, "bob").await;
    let (_, pod) = guarded(&scene, &["guard"], true).await;
    let said = bob.runs(&why(&scene)).await;
    assert!(said.contains("Nobody asks it to move."), "{said}");
    let command = bob.reads(&why(&scene), "kubectl create evacuation ").await;
    assert!(scene.stays(&pod).await);
    bob.runs(&command.replace("10m", "1s")).await;
    scene.pods.gone(&pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_goes_by_the_change_of_its_budget_that_why_names() {
    let scene = scene("allowed").await;
    let bob = Person::editor(&scene, "bob").await;
    let (_, pod) = guarded(&scene, &["guard"], true).await;
    bob.runs(&format!("kubectl create evacuation app -n {}", scene.namespace())).await;
    let command = bob.reads(&why(&scene), "kubectl patch poddisruptionbudget ").await;
    assert!(command.contains("minAvailable"), "{command}");
    assert!(scene.stays(&pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unready_pod_goes_by_the_change_of_its_budget_that_why_names() {
    let scene = scene("unready").await;
    let bob = Person::editor(&scene, "bob").await;
    let (_, pod) = guarded(&scene, &["guard"], false).await;
    bob.runs(&format!("kubectl create evacuation app -n {}", scene.namespace())).await;
    let command = bob.reads(&why(&scene), "kubectl patch poddisruptionbudget ").await;
    assert!(scene.stays(&pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
}
