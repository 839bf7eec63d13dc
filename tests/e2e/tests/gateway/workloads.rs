//! The controllers of workloads, and the garbage collector behind them.

use controlplane::eventually;
use evacuation_api::Evacuation;
use evacuation_e2e::{
    scene::{PATIENCE, answer, end_of},
    workload,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The annotations of pods that register `self` and go quickly.
fn registered() -> Value {
    json!({
        "evacuation.dev/responders": "[{\"name\":\"self\"}]",
        "controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms",
    })
}

/// Lets pods land on the stage's node alone.
fn on_own_node(stage: &Stage, mut object: Value) -> Value {
    let spec = &mut object["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": stage.node()});
    spec["tolerations"] = controlplane::tolerations();
    object
}

/// Returns false for an Evacuation that kwok caused: it deletes pods that terminate by their name, and a busy
/// machine lets that reach the next pod of the name.
fn is_of_workload(evacuation: &Evacuation) -> bool {
    caller(evacuation).0 != "kwok"
}

/// Waits until a pod is asked that is none of these Evacuations'.
async fn next_asked(stage: &Stage, known: &[&Evacuation]) -> Evacuation {
    let found = eventually(PATIENCE, "a pod is asked", || async {
        let mut all = stage.all_evacuations().await;
        all.retain(|e| is_of_workload(e) && known.iter().all(|known| known.uid() != e.uid()));
        all.pop().ok_or("none")
    });
    let evacuation = found.await.unwrap();
    stage.reached(&evacuation, 0).await;
    evacuation
}

fn caller(evacuation: &Evacuation) -> (&str, &str) {
    let entry = &evacuation.spec.requesters[0];
    (entry.owner.trim_start_matches("system:serviceaccount:kube-system:"), &entry.name)
}

/// Accepts for the pod, and waits until it is gone.
async fn accept(stage: &Stage, evacuation: &Evacuation) {
    let pod = stage.pods.api().get(&evacuation.spec.target.pod.name).await.unwrap();
    answer(&stage.client_of(&pod).await, evacuation, json!({"answer": "Accept"})).await.unwrap();
    // The controller's eviction and the retry of the deletion race.
    let ended = |e: &Evacuation| end_of(e).is_some_and(|end| end.starts_with("Evacuated"));
    stage.until(evacuation, "the evacuation has ended", ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_of_a_stateful_set_asks_each_pod_once_and_leaves_the_new_ones_alone() {
    let stage = Stage::new("statefulset").await;
    let mut set = on_own_node(&stage, workload("db", 2, &registered()));
    set["spec"]["serviceName"] = json!("db");
    stage.create::<StatefulSet>(set).await;
    let before = stage.ready_pods("db", 2, &[]).await;
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}));
    stage.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.unwrap();
    let first = next_asked(&stage, &[]).await;
    assert_eq!(caller(&first), ("statefulset-controller", "gateway.evacuation.dev/statefulset"));
    assert_eq!(first.spec.target.pod.name, "db-1");
    accept(&stage, &first).await;
    let second = next_asked(&stage, &[&first]).await;
    assert_eq!(second.spec.target.pod.name, "db-0");
    accept(&stage, &second).await;
    let old: Vec<&Pod> = before.iter().collect();
    let after = stage.ready_pods("db", 2, &old).await;
    assert!(after.iter().all(|pod| pod.labels().get("version").is_some_and(|version| version == "2")));
    let asked = stage.all_evacuations().await;
    assert_eq!(asked.iter().filter(|evacuation| is_of_workload(evacuation)).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_a_daemon_set_asks_the_pod_it_replaces() {
    let stage = Stage::new("daemonset").await;
    let mut set = on_own_node(&stage, workload("agent", 1, &registered()));
    set["spec"].as_object_mut().unwrap().remove("replicas");
    stage.create::<DaemonSet>(set).await;
    let before = stage.ready_pods("agent", 1, &[]).await;
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}));
    stage.api::<DaemonSet>().patch("agent", &PatchParams::default(), &patch).await.unwrap();
    let asked = next_asked(&stage, &[]).await;
    assert_eq!(caller(&asked), ("daemon-set-controller", "gateway.evacuation.dev/daemonset"));
    assert!(stage.stays(&before[0]).await);
    accept(&stage, &asked).await;
    let old: Vec<&Pod> = before.iter().collect();
    stage.ready_pods("agent", 1, &old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_suspended_asks_its_pods() {
    let stage = Stage::new("job").await;
    let mut job = on_own_node(&stage, workload("batch", 1, &registered()));
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for field in ["replicas", "selector"] {
        job["spec"].as_object_mut().unwrap().remove(field);
    }
    stage.create::<Job>(job).await;
    let pods = stage.ready_pods("batch", 1, &[]).await;
    let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
    stage.api::<Job>().patch("batch", &PatchParams::default(), &patch).await.unwrap();
    let asked = next_asked(&stage, &[]).await;
    assert_eq!(caller(&asked), ("job-controller", "gateway.evacuation.dev/job"));
    assert!(stage.stays(&pods[0]).await);
    accept(&stage, &asked).await;
    stage.pods.gone(&pods[0]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_deleted_deployment_go_with_it() {
    let stage = Stage::new("collected").await;
    stage.create::<Deployment>(on_own_node(&stage, workload("web", 2, &registered()))).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    stage.api::<Deployment>().delete("web", &DeleteParams::default()).await.unwrap();
    for pod in &pods {
        stage.pods.gone(pod).await.unwrap();
    }
    assert!(stage.all_evacuations().await.is_empty(), "the garbage collector asks nobody");
}
