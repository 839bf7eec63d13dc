//! Budgets that hold a pod back.

use chrono::TimeDelta;
use evacuation_api::DrainBlockerReason;
use evacuation_e2e::PodSpec;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use serde_json::json;

use super::quick_pods;
use crate::nodes::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_allows_none_is_stuck_until_it_allows_a_disruption() {
    let mut stage = Stage::new("none", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 0})).await;
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::BudgetAllowsNone, true).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), "PodDisruptionBudget/guard").says(&[
        "guard",
        "maxUnavailable 0",
        "2 of 2 pods",
        "allows no disruption",
    ]);
    assert!(found.blocker.owner.unwrap().starts_with("ReplicaSet/web-"));
    assert_eq!((found.status.pods.total, found.status.expected_completion), (2, None));
    assert!(stage.scene.evicted().is_empty());

    stage.change_budget("guard", json!({"maxUnavailable": 1})).await;
    stage.drained("d").await;
    assert_eq!(stage.scene.evicted().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_deletes_gets_past_a_budget_that_needs_every_replica() {
    let mut stage = Stage::new("all", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    stage.budget("guard", "web", json!({"minAvailable": 2})).await;
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::BudgetAllowsNone, true).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), "PodDisruptionBudget/guard").says(&[
        "minAvailable 2",
        "2 of 2 pods",
        "add a replica",
        "--deadline=10m --at-deadline=delete",
    ]);

    let deadline = |seconds| json!({"requester": {"deadlineSeconds": seconds, "atDeadline": "Delete"}});
    stage.change("d", deadline(600)).await;
    let found = stage.blocked("d", DrainBlockerReason::BudgetAllowsNone, false).await;
    found.says(&["nothing is needed", "its deadline deletes the pod at"]);
    let end = found.status.start_time.unwrap().0 + TimeDelta::seconds(600);
    assert_eq!(found.status.expected_completion.map(|time| time.0), Some(end));

    stage.change("d", deadline(1)).await;
    stage.drained("d").await;
    assert!(stage.scene.evicted().is_empty());
    assert!(!stage.scene.deletions(&pods[0].name_any()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_pods_without_scale_is_named_until_it_counts_from_below() {
    let stage = Stage::new("noscale", 1).await;
    let job = json!({
        "metadata": {"name": "batch"},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "batch"}, "annotations": quick_pods()},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"pool": stage.scene.namespace()}, "tolerations": controlplane::tolerations(),
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
        },
    });
    stage.scene.create::<Job>(job).await;
    let pod = stage.scene.only_pod("batch", None).await;
    stage.budget("guard", "batch", json!({"maxUnavailable": 1})).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::BudgetNotComputed, false).await;
    found.concerns(&[&pod], "PodDisruptionBudget/guard").says(&[
        "cannot compute budget guard",
        "does not implement the scale subresource",
        "nothing is needed if the pod ends by itself",
        "minAvailable with a number",
    ]);
    assert_eq!(found.blocker.owner.as_deref(), Some("Job/batch"));

    stage.change_budget("guard", json!({"maxUnavailable": null, "minAvailable": 0})).await;
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_pods_without_a_controller_is_stuck_until_it_is_deleted() {
    let stage = Stage::new("bare", 1).await;
    let pod = stage.scene.pod("app", PodSpec::default().label("app", "app").on(&stage.nodes[0])).await;
    stage.budget("guard", "app", json!({"maxUnavailable": "50%"})).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let found = stage.blocked("d", DrainBlockerReason::BudgetNotComputed, true).await;
    found.concerns(&[&pod], "PodDisruptionBudget/guard").says(&[
        "guard",
        "no controller",
        "maxUnavailable 50%",
        "minAvailable with a number",
        "delete the budget",
    ]);
    stage.delete_budget("guard").await;
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_two_budgets_is_stuck_until_one_of_them_is_deleted() {
    let mut stage = Stage::new("twice", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    for name in ["one", "two"] {
        stage.budget(name, "web", json!({"maxUnavailable": 1})).await;
    }
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::MultipleBudgets, true).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), "PodDisruptionBudget/one").says(&[
        "budgets one, two select the pod",
        "more than one budget",
        "delete the others",
    ]);
    stage.delete_budget("two").await;
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unready_pod_that_its_budget_protects_is_stuck_after_a_while_until_always_allow() {
    let mut stage = Stage::new("unready", 1).await;
    let pods = stage.deployment("web", 1, quick_pods()).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;
    stage.scene.annotate(&pods[0], &json!({"controlplane.test/ready": "false"})).await;
    stage.scene.pod_until(&pods[0], "it is not ready", |pod| !evacuation_e2e::scene::is_ready(pod)).await;
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let words = ["the pod is not ready", "budget guard protects", "unhealthyPodEvictionPolicy: AlwaysAllow"];
    let slow = stage.blocked("d", DrainBlockerReason::UnhealthyPod, false).await;
    slow.concerns(&[&pods[0]], "PodDisruptionBudget/guard").says(&words);
    let stuck = stage.blocked("d", DrainBlockerReason::UnhealthyPod, true).await;
    stuck.concerns(&[&pods[0]], "PodDisruptionBudget/guard").says(&words);

    stage.change_budget("guard", json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"})).await;
    stage.drained("d").await;
}

/// Both pods of an app accept and stop their work. Neither gives the budget the healthy pod that the other
/// waits for.
#[tokio::test(flavor = "multi_thread")]
async fn two_pods_of_a_budget_that_are_both_unready_are_stuck_after_a_minute_until_always_allow() {
    let mut stage = Stage::new("idle", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;
    for pod in &pods {
        stage.scene.annotate(pod, &json!({"controlplane.test/ready": "false"})).await;
        stage.scene.pod_until(pod, "it is not ready", |pod| !evacuation_e2e::scene::is_ready(pod)).await;
    }
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::ReplacementUnready, true).await;
    let words = ["budget guard waits for pod", "which has not been ready since", "AlwaysAllow", "cancel"];
    found.says(&words);
    let blocker = &found.blocker;
    let other = pods.iter().find(|pod| !blocker.pod.as_ref().unwrap().ends_with(&pod.name_any())).unwrap();
    assert_eq!(blocker.object, Some(format!("Pod/{}", other.name_any())));

    stage.change_budget("guard", json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"})).await;
    stage.drained("d").await;
}
