//! One ledger: deletions by workload controllers count against budgets as evictions do.

use std::time::Duration;

use chrono::TimeDelta;
use evacuation_api::RESPONDERS_ANNOTATION;
use evacuation_e2e::{
    Scene,
    scene::{Availability, Bystander, PATIENCE, answer, received, status, until_time},
    workload,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    stage::{Stage, options, run, start},
    surplus::scale,
};

/// Label that opts the namespace in.
pub(crate) const COUNTS: (&str, &str) = ("gateway.evacuation.dev/count", "deletions");
/// Time in which a budget may hold back a deletion by the row of the stage.
const ROW_PATIENCE: TimeDelta = TimeDelta::seconds(8);
/// Replicas of the Deployment.
const REPLICAS: usize = 6;

/// Returns a Deployment whose rollout replaces half of its pods at once. Each pod takes a while to be ready.
fn deployment(scene: &str) -> Value {
    let annotations =
        json!({"controlplane.test/running-after": "1500ms", "controlplane.test/gone-after": "500ms"});
    let mut deployment = workload("web", REPLICAS, &annotations);
    deployment["spec"]["template"]["metadata"]["labels"]["scene"] = json!(scene);
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}});
    deployment
}

/// Returns a Deployment of two pods that deletes all old pods before it creates a new one.
pub(crate) fn recreated(name: &str) -> Value {
    recreated_with(name, 2, &json!({"controlplane.test/gone-after": "100ms"}))
}

/// The same with pods that have those annotations.
fn recreated_with(name: &str, replicas: usize, annotations: &Value) -> Value {
    let mut deployment = workload(name, replicas, annotations);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    deployment
}

pub(crate) async fn roll_out(stage: &Stage, name: &str) {
    let template = json!({"metadata": {"annotations": {"test/version": "2"}}});
    let patch = Patch::Merge(json!({"spec": {"template": template}}));
    stage.api::<Deployment>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until every pod is of the new version.
async fn rolled_out(stage: &Stage) {
    let status = format!("--timeout={}s", PATIENCE.as_secs());
    let done = run(stage.kubectl(&["rollout", "status", "deployment/web", &status])).await;
    assert!(done.success(), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_and_a_drain_together_never_break_the_budget() {
    let stage = Stage::alone(Scene::with("ledger", options)).await;
    stage.label_namespace(&[COUNTS]).await;
    stage.create::<Deployment>(deployment(stage.namespace())).await;
    let pods = stage.ready_pods("web", REPLICAS, &[]).await;
    stage.pods.budget("web", ("app", "web"), 1).await.unwrap();
    let node = pods[0].spec.as_ref().unwrap().node_name.clone().unwrap();
    let availability = Availability::watch(&stage).await;
    roll_out(&stage, "web").await;
    let mut drain = stage.platform().kubectl_command();
    // Only the pods of this test: others run on the node, too.
    let selector = format!("--pod-selector=app=web,scene={}", stage.namespace());
    drain.args(["drain", &node, "--force", "--ignore-daemonsets", "--timeout=100s", &selector]);
    let drain = start(drain);
    rolled_out(&stage).await;
    let drained = drain.await.unwrap();
    let uncordoned = run(stage.kubectl(&["uncordon", &node])).await;
    assert!(drained.success() && uncordoned.success(), "{drained:?}");
    let (fewest, _) = availability.bounds().await;
    // None is missing when the new pods are ready before the first old one goes.
    assert!(fewest >= REPLICAS - 1, "the budget allows one pod to be missing, and {fewest} were there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_a_budget_would_block_for_ever_passes_after_the_time_of_its_row() {
    let stage = Stage::new("blocked").await;
    stage.label_namespace(&[COUNTS]).await;
    stage.create::<Deployment>(recreated("web")).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    stage.pods.budget("web", ("app", "web"), 0).await.unwrap();
    let began = std::time::Instant::now();
    roll_out(&stage, "web").await;
    let said = stage.event_where("the deletion passes the budget", |event| {
        event.reason.as_deref() == Some("DeletionPassedBudget")
    });
    let said = said.await;
    assert!(said.contains("replicaset-controller could delete the pod although a budget"), "{said}");
    // The row's time is 8 s.
    assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    let evacuations = stage.all_evacuations().await;
    assert!(!evacuations.is_empty(), "an Evacuation explained the wait");
    stage.ready_pods("web", 2, &pods.iter().collect::<Vec<_>>()).await;
    let budgets = stage.api::<PodDisruptionBudget>().get("web").await.unwrap();
    assert_eq!(budgets.status.unwrap().disruptions_allowed, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_budget_allows_is_counted_and_passes_at_once() {
    let stage = Stage::new("counted").await;
    stage.label_namespace(&[COUNTS]).await;
    let annotations = json!({"controlplane.test/gone-after": "100ms"});
    stage.create::<ReplicaSet>(workload("web", 2, &annotations)).await;
    stage.ready_pods("web", 2, &[]).await;
    stage.pods.budget("web", ("app", "web"), 1).await.unwrap();
    scale::<ReplicaSet>(&stage, "web", 1).await;
    stage.ready_pods("web", 1, &[]).await;
    let evictions = stage.all_evictions();
    let by_gateway =
        evictions.iter().filter(|event| event.user().ends_with(":evacuation-gateway") && event.code() == 201);
    assert_eq!(by_gateway.count(), 1, "{evictions:?}");
    assert!(stage.all_evacuations().await.is_empty());
}

/// # Attack
///
/// - Attacker: a drain whose Evacuations of the pods a budget has held back for longer than a row allows
/// - Act: leaves the way past the budget open to the first deletion of a rollout
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_a_budget_with_its_own_patience_and_not_with_that_of_a_drain() {
    let stage = Stage::new("patience").await;
    stage.label_namespace(&[COUNTS]).await;
    let bystander = Bystander::new(&stage).await;
    stage.create::<Deployment>(recreated("web")).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    stage.pods.budget("web", ("app", "web"), 0).await.unwrap();
    for pod in &pods {
        let asked = stage.ask(pod, json!({})).await;
        let blocked = stage.until_condition(&asked, "Blocked", "BudgetAllowsNone").await;
        let since = status(&blocked).eviction.as_ref().unwrap().budget_blocked_time.unwrap();
        until_time(since.0 + ROW_PATIENCE + TimeDelta::seconds(1)).await;
    }
    roll_out(&stage, "web").await;
    stage.event_where("a deletion passes", |e| e.reason.as_deref() == Some("DeletionPassedBudget")).await;
    for pod in &pods {
        stage.pods.gone(pod).await.unwrap();
        let name = pod.name_any();
        let (passed, refused): (Vec<_>, Vec<_>) =
            stage.deletions(&name).into_iter().partition(|call| call.code() == 200);
        assert!(
            !passed.is_empty() && refused.iter().any(|call| call.code() == 429),
            "{passed:?} {refused:?}"
        );
        let records = stage.all_evacuations().await.into_iter().filter(|e| e.spec.target.pod.name == name);
        let records = records.flat_map(|e| status(&e).requesters.clone());
        let own = records.into_iter().find(|known| known.owner.ends_with(":replicaset-controller"));
        let joined = own.expect("the rollout had an entry of its own").joined();
        assert!(passed.iter().all(|call| received(call) - joined.0 >= ROW_PATIENCE), "{joined:?} {passed:?}");
    }
    bystander.drains(&stage).await;
}

/// # Attack
///
/// - Attacker: an app that refuses for longer than a budget may hold a deletion, and then accepts
/// - Act: lets the time under its refusal count as time under the budget
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_its_app_refused_first_waits_for_a_budget_from_the_acceptance_on() {
    let stage = Stage::new("refusedfirst").await;
    stage.label_namespace(&[COUNTS]).await;
    let bystander = Bystander::new(&stage).await;
    let responders = json!([{"name": "self", "timeoutSeconds": 600}]).to_string();
    let annotations = json!({"controlplane.test/gone-after": "100ms", RESPONDERS_ANNOTATION: responders});
    stage.create::<Deployment>(recreated_with("web", 1, &annotations)).await;
    let pod = stage.ready_pods("web", 1, &[]).await.remove(0);
    stage.pods.budget("web", ("app", "web"), 0).await.unwrap();
    roll_out(&stage, "web").await;
    let asked = stage.evacuation_of(&pod.name_any()).await;
    let asked = stage.reached(&asked, 0).await;
    let app = stage.client_of(&pod).await;
    answer(&app, &asked, json!({"answer": "Refuse"})).await.unwrap();
    let refused = stage.until_condition(&asked, "Blocked", "Refused").await;
    let joined = status(&refused).requesters[0].joined();
    until_time(joined.0 + ROW_PATIENCE + TimeDelta::seconds(1)).await;
    answer(&app, &asked, json!({"answer": "Accept"})).await.unwrap();
    let blocked = stage.until_condition(&asked, "Blocked", "BudgetAllowsNone").await;
    let since = status(&blocked).eviction.as_ref().unwrap().budget_blocked_time.unwrap();
    stage.pods.gone(&pod).await.unwrap();
    let deletions = stage.deletions(&pod.name_any());
    let passed: Vec<_> = deletions.iter().filter(|call| call.code() == 200).collect();
    assert!(!passed.is_empty(), "{deletions:?}");
    assert!(passed.iter().all(|call| received(call) - since.0 >= ROW_PATIENCE), "{since:?} {passed:?}");
    bystander.drains(&stage).await;
}
