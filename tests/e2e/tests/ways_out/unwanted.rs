//! Pods that stay although their owner is scaled to 0, and the commands by which they go.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, RESPONDERS_ANNOTATION};
use evacuation_client::Answer;
use evacuation_e2e::{Scene, scene::PATIENCE, workload};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    policy::v1::PodDisruptionBudget,
};
use kube::ResourceExt;
use serde_json::json;

use crate::{
    budgets::{limit, placed},
    gateway::is_asked,
    person::Person,
    room::{drained, status, stuck, stuck_beside},
    scene,
};

/// Has a user scale a workload to 0.
async fn scale_to_0(scene: &Scene, bob: &Person<'_>, workload: &str) {
    bob.runs(&format!("kubectl scale {workload} --replicas=0 -n {}", scene.namespace())).await;
}

/// A StatefulSet removes one pod after the other. The first hangs in its termination, so that the other is
/// still there, and its budget expects none.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_budget_that_expects_none_goes_by_the_deletion_that_the_drain_names() {
    let scene = scene("unwanted").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    let mut db = workload("db", 2, &json!({"controlplane.test/gone-after": "100ms"}));
    db["spec"]["serviceName"] = json!("db");
    scene.create::<StatefulSet>(placed(&scene, db)).await;
    let pods = scene.ready_pods("db", 2, &[]).await;
    let [kept, hangs] = &pods[..] else { panic!("{pods:?}") };
    assert_eq!(kept.name_any(), "db-0");
    limit(&scene, "db", json!({"maxUnavailable": 1})).await;
    scene.finalizers(hangs, &["example.com/hold"]).await;
    scale_to_0(&scene, &bob, "statefulset/db").await;
    scene.pod_until(hangs, "it terminates", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    let budgets = scene.api::<PodDisruptionBudget>();
    let counted = eventually(PATIENCE, "the budget expects no pod", || async {
        let expected = budgets.get("db").await?.status.unwrap_or_default().expected_pods;
        if expected == Some(0) { Ok(()) } else { bail!("{expected:?}") }
    });
    counted.await.unwrap();

    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    let blocker = stuck_beside(&scene, &node, DrainBlockerReason::BudgetAllowsNone).await;
    let why = "budget db expects no pod, because the scale of the owner is 0";
    assert!(blocker.message.starts_with(why), "{}", blocker.message);
    assert_eq!(blocker.pod, Some(format!("{}/db-0", scene.namespace())));
    let evacuation = scene.evacuation_of("db-0").await;
    scene.until_condition(&evacuation, "Blocked", "BudgetAllowsNone").await;
    let command = ann.reads(&status(&node), "kubectl delete pod db-0 ").await;
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot delete resource \"pods\""), "{refused}");
    assert!(scene.stays(kept).await);
    bob.runs(&command).await;
    scene.pods.gone(kept).await.unwrap();
    scene.finalizers(hangs, &[]).await;
    scene.pods.gone(hangs).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// The gateway asks the app about the deletion by the ReplicaSet's controller.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_app_refuses_the_scale_down_goes_by_the_override_that_the_drain_names() {
    let scene = scene("clinging").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    is_asked(&scene).await;
    let annotations = json!({
        "controlplane.test/gone-after": "100ms", RESPONDERS_ANNOTATION: json!([{"name": "self"}]).to_string(),
    });
    scene.create::<Deployment>(placed(&scene, workload("web", 1, &annotations))).await;
    let pod = scene.only_pod("web", None).await;
    let _app = scene.app(&pod, |_| async { Answer::refuse("a backup runs") }).await;
    scale_to_0(&scene, &bob, "deployment/web").await;
    let evacuation = scene.evacuation_of(&pod.name_any()).await;
    scene.answered(&evacuation, evacuation_api::Answer::Refuse).await;
    assert!(scene.stays(&pod).await);

    ann.runs(&format!("kubectl evacuate node {node} --detach --on-refusal=wait")).await;
    stuck(&scene, &node, DrainBlockerReason::Refused, 1).await;
    let command = ann.reads(&status(&node), "kubectl evacuate override ").await;
    assert!(scene.stays(&pod).await);
    ann.runs(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
