//! Replacements that a budget waits for, and that do not become ready.

use controlplane::eventually;
use evacuation_api::DrainBlockerReason;
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Pod, ResourceQuota},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::quick_pods;
use crate::nodes::{Stage, is_cordoned};

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_without_a_node_holds_the_drain_until_a_node_is_added() {
    let mut stage = Stage::new("full", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::ReplacementUnschedulable, false).await;
    let replacement = replacement(&stage, &pods).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), &format!("Pod/{replacement}")).says(&[
        "budget guard waits for pod",
        &replacement,
        "cannot be scheduled",
        "unschedulable",
    ]);
    // Its replacement is there before the first pod has ended.
    stage.until("d", "the first pod is gone", |status| status.pods.gone == 1).await;
    stage.add_node(1).await;
    stage.drained("d").await;
    stage.scene.ready_pods("web", 2, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drains_that_wait_for_each_others_replacements_are_stuck_until_one_is_deleted() {
    let mut stage = Stage::new("each", 1).await;
    let first = stage.deployment("web", 2, quick_pods()).await;
    stage.scene.cordon(&stage.nodes[0], true).await;
    stage.add_node(1).await;
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let api = stage.scene.api::<Deployment>();
    api.patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    let all = stage.scene.ready_pods("web", 4, &[]).await;
    stage.scene.cordon(&stage.nodes[0], false).await;
    assert_eq!((first.len(), stage.pods_on(0).await.len(), stage.pods_on(1).await.len()), (2, 2, 2));
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;

    stage.drain("a", &[0], json!({})).await;
    stage.drain("b", &[1], json!({})).await;
    for drain in ["a", "b"] {
        let found = stage.blocked(drain, DrainBlockerReason::ReplacementUnschedulable, true).await;
        let replacement = replacement(&stage, &all).await;
        found.concerns(&all.iter().collect::<Vec<_>>(), &format!("Pod/{replacement}")).says(&[
            "cannot be scheduled",
            "two drains that wait for each other's replacements",
            "kubectl evacuate cancel ",
        ]);
    }
    let found = stage.blocked("b", DrainBlockerReason::ReplacementUnschedulable, true).await;
    stage.runs_named(&found.blocker.message, "kubectl evacuate cancel ").await;
    stage.gone("b").await;
    assert!(!is_cordoned(&stage.node(1).await));
    stage.drained("a").await;
    stage.scene.ready_pods("web", 4, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_without_its_image_holds_the_drain_until_the_image_is_there() {
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"app:typo\""});
    let words = ["the image of whose container app cannot be pulled", "app:typo", "correct the name"];
    failing(DrainBlockerReason::ReplacementImage, waiting, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_crashes_holds_the_drain_until_it_runs() {
    let waiting = json!({"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"});
    let words = ["whose container app does not run", "CrashLoopBackOff", "repair the app"];
    failing(DrainBlockerReason::ReplacementCrashing, waiting, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_a_quota_forbids_holds_the_drain_until_the_quota_is_gone() {
    let mut stage = Stage::new("forbidden", 1).await;
    let pods = stage.deployment("web", 2, quick_pods()).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;
    stage.add_node(1).await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    stage.scene.create::<ResourceQuota>(quota).await;
    until_pods_are_allowed(&stage, false).await;
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::ReplacementMissing, true).await;
    let set = pods[0].owner_references()[0].name.clone();
    found.concerns(&pods.iter().collect::<Vec<_>>(), &format!("ReplicaSet/{set}")).says(&[
        "budget guard waits for a pod that is not there: it expects 2 pods, and 1 of them neither runs nor starts",
        &format!("see in the events of ReplicaSet/{set} why it creates no pod"),
    ]);
    let event = stage.scene.event("ReplicaSet", &set, "FailedCreate").await;
    assert!(event.contains("quota: none"), "{event}");
    stage.scene.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await.unwrap();
    until_pods_are_allowed(&stage, true).await;
    // The ReplicaSet controller tries again after a time that has grown, or when the ReplicaSet changes.
    let change = Patch::Merge(json!({"metadata": {"annotations": {"example.com/change": "1"}}}));
    stage.scene.api::<ReplicaSet>().patch(&set, &PatchParams::default(), &change).await.unwrap();
    stage.drained("d").await;
}

/// Waits until the kube-apiserver knows whether the namespace takes a further pod.
async fn until_pods_are_allowed(stage: &Stage, allowed: bool) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pod = json!({"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let known = eventually(PATIENCE, "the server knows the quota", || async {
        match stage.scene.pods.api().create(&dry, &pod).await {
            Ok(_) if allowed => Ok(()),
            Err(kube::Error::Api(status)) if !allowed && status.message.contains("quota: none") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    known.await.unwrap();
}

/// Replacements wait in that state until their template is corrected.
async fn failing(reason: DrainBlockerReason, waiting: Value, words: &[&str]) {
    let mut stage = Stage::new("failing", 1).await;
    let template = |annotations: Value| {
        json!({
            "metadata": {"labels": {"app": "web"}, "annotations": annotations},
            "spec": {
                "nodeSelector": {"pool": stage.scene.namespace()}, "tolerations": controlplane::tolerations(),
                "containers": [{"name": "app", "image": "app"}],
            },
        })
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": 2, "selector": selector, "template": template(quick_pods())});
    let broken = template(json!({"controlplane.test/running-after": "1h"}));
    let correct = template(quick_pods());
    stage.scene.create::<ReplicaSet>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let pods = stage.scene.ready_pods("web", 2, &[]).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;
    stage.add_node(1).await;
    set_template(&stage, broken).await;
    stage.drain("d", &[0], json!({})).await;
    let replacement = replacement(&stage, &pods).await;
    let status = json!({"containerStatuses": [{
        "name": "app", "image": "app", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": waiting},
    }]});
    let patch = Patch::Merge(json!({"status": status}));
    let api = stage.scene.pods.api();
    api.patch_status(&replacement, &PatchParams::default(), &patch).await.unwrap();

    let found = stage.blocked("d", reason, false).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), &format!("Pod/{replacement}")).says(words);
    found.says(&["budget guard waits for pod", &replacement]);
    set_template(&stage, correct).await;
    stage.scene.delete_pod(&replacement).await;
    stage.drained("d").await;
}

/// Changes the template of the pods that the ReplicaSet creates from now on.
async fn set_template(stage: &Stage, template: Value) {
    let patch = Patch::Merge(json!({"spec": {"template": template}}));
    stage.scene.api::<ReplicaSet>().patch("web", &PatchParams::default(), &patch).await.unwrap();
}

/// Waits for the name of the one pod that is not among the old ones.
async fn replacement(stage: &Stage, old: &[Pod]) -> String {
    let api = stage.scene.pods.api();
    let found = eventually(PATIENCE, "there is one replacement", || async {
        let pods = api.list(&ListParams::default().labels("app=web")).await.unwrap().items;
        let is_new = |pod: &&Pod| old.iter().all(|old| old.uid() != pod.uid());
        let new: Vec<String> = pods.iter().filter(is_new).map(ResourceExt::name_any).collect();
        if let [one] = new.as_slice() { Ok(one.clone()) } else { Err(format!("{new:?}")) }
    });
    found.await.unwrap()
}
