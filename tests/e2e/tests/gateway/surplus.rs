//! Counted deletions of pods that their owner no longer wants: no budget holds them.

use controlplane::{AuditEvent, eventually};
use evacuation_api::RESPONDERS_ANNOTATION;
use evacuation_client::{Answer, Question};
use evacuation_e2e::{scene::PATIENCE, workload};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Event,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde_json::json;

use crate::{
    ledger::{COUNTS, recreated, roll_out},
    stage::Stage,
};

pub(crate) async fn scale<K>(stage: &Stage, name: &str, replicas: usize)
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    stage.api::<K>().patch_scale(name, &PatchParams::default(), &patch).await.unwrap();
}

/// # Attack
///
/// - Attacker: a rollout beside a scale-down to 0
/// - Act: passes its budget as if its owner wanted no pods
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn what_its_owner_no_longer_wants_is_held_by_no_budget_and_a_rollout_is() {
    let stage = Stage::new("surplus").await;
    stage.label_namespace(&[COUNTS]).await;
    let annotations = json!({"controlplane.test/gone-after": "100ms"});
    stage.create::<Deployment>(workload("web", 2, &annotations)).await;
    stage.create::<Deployment>(recreated("api")).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    let others = stage.ready_pods("api", 2, &[]).await;
    stage.pods.budget("api", ("app", "api"), 0).await.unwrap();
    let selector = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector}});
    stage.create::<PodDisruptionBudget>(budget).await;
    let budgets = stage.api::<PodDisruptionBudget>();
    let counted = eventually(PATIENCE, "the budget counts", || async {
        let allowed = budgets.get("web").await.unwrap().status.unwrap_or_default().disruptions_allowed;
        if allowed == Some(1) { Ok(()) } else { Err(format!("{allowed:?}")) }
    });
    counted.await.unwrap();
    roll_out(&stage, "api").await;
    let held = eventually(PATIENCE, "the rollout waits for its budget", || async {
        stage.all_evacuations().await.pop().ok_or("none")
    });
    let held = held.await.unwrap();
    stage.until_condition(&held, "Blocked", "BudgetAllowsNone").await;
    scale::<Deployment>(&stage, "web", 0).await;
    for pod in &pods {
        stage.pods.gone(pod).await.unwrap();
    }
    // Not because the patience of the row was over.
    let passed = stage.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let passed = passed.iter().filter(|e| e.reason.as_deref() == Some("DeletionPassedBudget"));
    let passed: Vec<_> = passed.filter_map(|e| e.involved_object.name.clone()).collect();
    assert!(pods.iter().all(|pod| !passed.contains(&pod.name_any())), "{passed:?}");
    let asked = stage.all_evacuations().await.into_iter().map(|e| e.spec.target.pod.name);
    let asked: Vec<_> = asked.collect();
    assert!(asked.iter().all(|name| others.iter().any(|pod| pod.name_any() == *name)), "{asked:?}");
    let by_gateway = |event: &&AuditEvent| event.user().ends_with(":evacuation-gateway");
    let evictions = stage.all_evictions();
    let denied =
        evictions.iter().filter(by_gateway).any(|event| event.name() == asked[0] && event.code() == 429);
    assert!(denied, "the deletion of the rollout was counted: {evictions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_above_the_new_scale_and_pods_of_a_deleted_owner_are_held_by_no_budget() {
    let stage = Stage::new("above").await;
    stage.label_namespace(&[COUNTS]).await;
    let annotations = json!({"controlplane.test/gone-after": "100ms"});
    let mut db = workload("db", 4, &annotations);
    db["spec"]["serviceName"] = json!("db");
    stage.create::<StatefulSet>(db).await;
    for (name, replicas) in [("half", 4), ("all", 4), ("gone", 2)] {
        stage.create::<Deployment>(workload(name, replicas, &annotations)).await;
    }
    for (name, replicas, needs) in
        [("half", 4, json!("50%")), ("all", 4, json!(4)), ("db", 4, json!("100%")), ("gone", 2, json!(2))]
    {
        stage.ready_pods(name, replicas, &[]).await;
        let selector = json!({"matchLabels": {"app": name}});
        let budget =
            json!({"metadata": {"name": name}, "spec": {"minAvailable": needs, "selector": selector}});
        stage.create::<PodDisruptionBudget>(budget).await;
    }
    scale::<Deployment>(&stage, "half", 2).await;
    scale::<Deployment>(&stage, "all", 2).await;
    scale::<StatefulSet>(&stage, "db", 2).await;
    stage.api::<Deployment>().delete("gone", &DeleteParams::foreground()).await.unwrap();
    for (name, left) in [("half", 2), ("all", 2), ("db", 2), ("gone", 0)] {
        stage.ready_pods(name, left, &[]).await;
    }
    // Not because the patience of the row was over.
    let events = stage.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().all(|e| e.reason.as_deref() != Some("DeletionPassedBudget")), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_down_to_nothing_is_held_by_no_budget_although_its_apps_stop_when_they_are_asked() {
    let stage = Stage::new("nothing").await;
    stage.label_namespace(&[COUNTS]).await;
    let annotations = json!({
        "controlplane.test/gone-after": "100ms", RESPONDERS_ANNOTATION: json!([{"name": "self"}]).to_string(),
    });
    stage.create::<Deployment>(workload("web", 2, &annotations)).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    stage.pods.budget("web", ("app", "web"), 1).await.unwrap();
    let mut apps = Vec::new();
    for pod in &pods {
        let (api, name) = (stage.pods.api(), pod.name_any());
        let stops = move |_: Question| {
            let (api, name) = (api.clone(), name.clone());
            async move {
                let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
                api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
                Answer::accept()
            }
        };
        apps.push(stage.app(pod, stops).await);
    }
    scale::<Deployment>(&stage, "web", 0).await;
    for pod in &pods {
        stage.pods.gone(pod).await.unwrap();
    }
    // Not because its patience was over.
    let events = stage.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().all(|e| e.reason.as_deref() != Some("DeletionPassedBudget")), "{events:?}");
}
