//! Rollouts that are undone while their deletions wait.

use controlplane::eventually;
use evacuation_api::Evacuation;
use evacuation_e2e::{
    scene::{Bystander, PATIENCE, answer, end_of},
    workload,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Pod,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage::{Stage, run};

/// Returns the annotations of pods whose app is silent for long.
fn silent() -> Value {
    let responders = json!([{"name": "self", "timeoutSeconds": 3600}]).to_string();
    json!({"evacuation.dev/responders": responders, "controlplane.test/gone-after": "100ms"})
}

/// Returns a Deployment that deletes an old pod before it creates a new one.
fn deployment(annotations: &Value) -> Value {
    let mut deployment = workload("web", 2, annotations);
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    deployment
}

/// Changes the template, and waits until the controller of that name has asked a pod.
async fn roll_out(stage: &Stage, change: impl AsyncFnOnce(Patch<Value>), controller: &str) -> Evacuation {
    change(Patch::Merge(json!({"spec": {"template": {"metadata": {"annotations": {"test/version": "2"}}}}})))
        .await;
    let asked = eventually(PATIENCE, "a pod is asked", || async {
        stage.all_evacuations().await.pop().ok_or("none")
    });
    let asked = asked.await.unwrap();
    let owner = &asked.spec.requesters[0].owner;
    assert!(owner.ends_with(controller), "{owner}");
    asked
}

/// Undoes the rollout, and waits for the end of the Evacuation that it caused.
async fn undo(stage: &Stage, object: &str, asked: &Evacuation) {
    let undone = run(stage.kubectl(&["rollout", "undo", object])).await;
    assert!(undone.success(), "{undone:?}");
    let ended = stage.until(asked, "its only entry left", |e| end_of(e).is_some()).await;
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Canceled"), "{:?}", ended.status);
}

/// Asserts that the pods are the same as before, and that no eviction of them succeeded.
async fn all_stay(stage: &Stage, pods: &[Pod]) {
    for pod in pods {
        assert!(stage.stays(pod).await, "{}", pod.name_any());
        let evictions = stage.evictions(&pod.name_any());
        assert!(evictions.iter().all(|call| call.code() != 201), "{evictions:?}");
    }
}

/// # Attack
///
/// - Attacker: a rollout that is undone while the app is asked
/// - Act: leaves its entry behind, so that a late answer moves a pod that nobody wants moved
/// - Promise: 3
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_a_rollout_was_undone_moves_no_pod() {
    let stage = Stage::new("undone").await;
    let bystander = Bystander::new(&stage).await;
    stage.create::<Deployment>(deployment(&silent())).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    let change = async |patch: Patch<Value>| {
        stage.api::<Deployment>().patch("web", &PatchParams::default(), &patch).await.unwrap();
    };
    let asked = roll_out(&stage, change, ":replicaset-controller").await;
    stage.reached(&asked, 0).await;
    undo(&stage, "deployment/web", &asked).await;
    let pod = stage.pods.api().get(&asked.spec.target.pod.name).await.unwrap();
    answer(&stage.client_of(&pod).await, &asked, json!({"answer": "Accept"})).await.unwrap_err();
    all_stay(&stage, &pods).await;
    bystander.drains(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_undone_under_a_budget_moves_no_pod_when_the_budget_has_room() {
    let stage = Stage::new("undone-blocked").await;
    stage.label_namespace(&[("gateway.evacuation.dev/count", "deletions")]).await;
    let annotations = json!({"controlplane.test/gone-after": "100ms"});
    stage
        .create::<StatefulSet>({
            let mut set = workload("db", 2, &annotations);
            set["spec"]["serviceName"] = json!("db");
            set
        })
        .await;
    let pods = stage.ready_pods("db", 2, &[]).await;
    stage.pods.budget("db", ("app", "db"), 0).await.unwrap();
    let change = async |patch: Patch<Value>| {
        stage.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.unwrap();
    };
    let asked = roll_out(&stage, change, ":statefulset-controller").await;
    stage.until_condition(&asked, "Blocked", "BudgetAllowsNone").await;
    undo(&stage, "statefulset/db", &asked).await;
    let room = Patch::Merge(json!({"spec": {"maxUnavailable": 2}}));
    let budgets = stage.api::<PodDisruptionBudget>();
    budgets.patch("db", &PatchParams::default(), &room).await.unwrap();
    let roomy = eventually(PATIENCE, "the budget has room", || async {
        let allowed = budgets.get("db").await.unwrap().status.unwrap_or_default().disruptions_allowed;
        if allowed == Some(2) { Ok(()) } else { Err(format!("{allowed:?}")) }
    });
    roomy.await.unwrap();
    all_stay(&stage, &pods).await;
}
