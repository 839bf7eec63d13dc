//! Budgets that hold a pod for ever, and the commands that their messages name.

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{PodSpec, Scene, is_ready, workload};
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    person::Person,
    room::{drained, slow, status, stuck, stuck_beside},
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
        disturb(scene, &pod).await;
    }
    (node, pod)
}

/// Makes a pod unready for good.
async fn disturb(scene: &Scene, pod: &Pod) {
    scene.annotate(pod, &json!({"controlplane.test/ready": "false"})).await;
    scene.pod_until(pod, "it is not ready", |pod| !is_ready(pod)).await;
}

/// A node with one pod, `app`. Its budget needs one of two pods that never become ready: each waits for the
/// other.
pub(crate) async fn waiting(scene: &Scene) -> (String, Pod) {
    let (node, pod) = guarded(scene, &["guard"], false).await;
    let other = scene.pod("other", PodSpec::default().label("app", "app")).await;
    disturb(scene, &other).await;
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
    ann.may_delete_pods(&refused).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn the_request_for_a_pod_that_waits_for_another_for_ever_is_taken_back_by_the_command_that_why_names() {
    let scene = scene("mutual").await;
    let bob = Person::editor(&scene, "bob").await;
    let (_, pod) = waiting(&scene).await;
    bob.runs(&format!("kubectl create evacuation app -n {}", scene.namespace())).await;
    let command = bob.reads(&why(&scene), "kubectl evacuate cancel ").await;
    let said = bob.runs(&command).await;
    assert!(said.contains("nobody asks pod"), "{said}");
    assert!(scene.stays(&pod).await);
}

/// Places the pods of a workload on a scene's own node.
pub(crate) fn placed(scene: &Scene, mut workload: Value) -> Value {
    let spec = &mut workload["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"test": scene.namespace()});
    spec["tolerations"] = json!(controlplane::tolerations());
    workload
}

/// Creates a budget of the pods with that label `app`.
pub(crate) async fn limit(scene: &Scene, app: &str, mut limits: Value) {
    limits["selector"] = json!({"matchLabels": {"app": app}});
    scene.create::<PodDisruptionBudget>(json!({"metadata": {"name": app}, "spec": limits})).await;
}

/// Gives a node the label that the scene's workload selects.
pub(crate) async fn take_in(scene: &Scene, node: &str) {
    let nodes: Api<Node> = Api::all(scene.admin());
    let label = Patch::Merge(json!({"metadata": {"labels": {scene.namespace(): "1"}}}));
    nodes.patch(node, &PatchParams::default(), &label).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_budget_that_needs_it_goes_when_a_replica_is_added_as_the_drain_says() {
    let scene = scene("replica").await;
    let ann = Person::drainer(&scene, "ann").await;
    let bob = Person::editor(&scene, "bob").await;
    let node = scene.own_node().await;
    let mut web = placed(&scene, workload("web", 1, &json!({"controlplane.test/gone-after": "100ms"})));
    // The added pod needs a node that is not drained, and which the first one does not have.
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({scene.namespace(): "1"});
    take_in(&scene, &node).await;
    scene.create::<Deployment>(web).await;
    let pod = scene.only_pod("web", None).await;
    take_in(&scene, "node-1").await;
    limit(&scene, "web", json!({"minAvailable": 1})).await;
    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    let blocker = stuck_beside(&scene, &node, DrainBlockerReason::BudgetAllowsNone).await;
    assert!(blocker.message.contains("; or add a replica"), "{}", blocker.message);
    assert!(scene.stays(&pod).await);
    bob.runs(&format!("kubectl scale deployment/web --replicas=2 -n {}", scene.namespace())).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_budget_without_a_limit_goes_by_the_limit_that_the_drain_names() {
    let scene = scene("limitless").await;
    let ann = Person::drainer(&scene, "ann").await;
    let bob = Person::editor(&scene, "bob").await;
    let node = scene.own_node().await;
    let web = workload("web", 1, &json!({"controlplane.test/gone-after": "100ms"}));
    scene.create::<Deployment>(placed(&scene, web)).await;
    let pod = scene.only_pod("web", None).await;
    limit(&scene, "web", json!({})).await;
    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone, 1).await;
    let command = ann.reads(&status(&node), "kubectl patch poddisruptionbudget ").await;
    assert!(scene.stays(&pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_job_is_waited_for_until_its_work_ends_although_its_budget_allows_nothing() {
    let scene = scene("job").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.own_node().await;
    let template = json!({
        "metadata": {"labels": {"app": "batch"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]},
    });
    let batch = json!({"metadata": {"name": "batch"}, "spec": {"template": template}});
    scene.create::<Job>(placed(&scene, batch)).await;
    let pod = scene.only_pod("batch", None).await;
    limit(&scene, "batch", json!({"minAvailable": 1})).await;
    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    let blocker = slow(&scene, &node, DrainBlockerReason::BudgetAllowsNone).await;
    assert!(blocker.message.contains("nothing is needed if the pod ends by itself"), "{}", blocker.message);
    assert!(scene.stays(&pod).await);
    scene.annotate(&pod, &json!({"controlplane.test/phase": "Succeeded"})).await;
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
