//! Deletions by a workload's controller that count as evictions, and what ends their wait for a budget.

use anyhow::ensure;
use controlplane::eventually;
use evacuation_e2e::{Scene, scene::PATIENCE, workload};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt;
use serde_json::json;

use crate::{
    budgets::{limit, placed},
    gateway::is_asked,
    person::Person,
    scene,
};

/// A user with every right, who counts the deletions in the scene's namespace.
async fn counting(scene: &Scene) -> Person<'_> {
    let operator = Person::new(scene, "operator");
    operator.bind_in_cluster("cluster-admin").await;
    is_asked(scene).await;
    let count =
        format!("kubectl label namespace {} gateway.evacuation.dev/count=deletions", scene.namespace());
    operator.runs_once_allowed(&count).await;
    operator
}

/// The pod of a Deployment whose rollout has to wait for a budget that allows nothing.
async fn held(scene: &Scene, operator: &Person<'_>) -> Pod {
    scene.own_node().await;
    let mut web = placed(scene, workload("web", 1, &json!({"controlplane.test/gone-after": "100ms"})));
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    scene.create::<Deployment>(web).await;
    let pod = scene.only_pod("web", None).await;
    limit(scene, "web", json!({"maxUnavailable": 0})).await;
    operator.runs(&format!("kubectl rollout restart deployment/web -n {}", scene.namespace())).await;
    let evacuation = scene.evacuation_of(&pod.name_any()).await;
    scene.until_condition(&evacuation, "Blocked", "BudgetAllowsNone").await;
    assert!(scene.stays(&pod).await);
    pod
}

fn why(scene: &Scene, pod: &Pod) -> String {
    format!("kubectl evacuate why {} -n {}", pod.name_any(), scene.namespace())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_its_budget_holds_goes_on_by_the_deletion_that_why_names() {
    let scene = scene("counted").await;
    let operator = counting(&scene).await;
    let bob = Person::editor(&scene, "bob").await;
    let pod = held(&scene, &operator).await;
    let command = bob.reads(&why(&scene, &pod), "kubectl delete pod ").await;
    bob.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    scene.only_pod("web", Some(&pod)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_its_budget_holds_goes_on_when_no_deletion_counts_any_more() {
    let scene = scene("uncounted").await;
    let operator = counting(&scene).await;
    let pod = held(&scene, &operator).await;
    let command = operator.reads(&why(&scene, &pod), "kubectl label namespace ").await;
    operator.runs(&command).await;
    // The ReplicaSet's controller tries again after a pause that doubles, or when its object changes.
    let restart =
        format!("kubectl annotate replicaset -l app=web -n {} --overwrite test=", scene.namespace());
    let began = std::time::Instant::now();
    let gone = eventually(PATIENCE, "the pod is gone", || async {
        operator.runs(&format!("{restart}{}", began.elapsed().as_millis())).await;
        ensure!(!scene.stays(&pod).await, "it stays");
        anyhow::Ok(())
    });
    gone.await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
    scene.only_pod("web", Some(&pod)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_its_budget_holds_goes_on_when_the_budget_allows_it() {
    let scene = scene("let").await;
    let operator = counting(&scene).await;
    let bob = Person::editor(&scene, "bob").await;
    let pod = held(&scene, &operator).await;
    let allow = r#"'{"spec":{"maxUnavailable":1}}'"#;
    bob.runs(&format!(
        "kubectl patch poddisruptionbudget web --type=merge -p {allow} -n {}",
        scene.namespace()
    ))
    .await;
    scene.pods.gone(&pod).await.unwrap();
    scene.only_pod("web", Some(&pod)).await;
}
