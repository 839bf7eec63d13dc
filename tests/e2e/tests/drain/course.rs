//! The course of a drain: from the cordon to the end, and back.

use evacuation_api::{
    CordonOwner, DrainConditionType, DrainVerdict, DrainedNodePhase, RESPONDERS_ANNOTATION,
};
use evacuation_client::Answer;
use evacuation_e2e::{
    PodSpec,
    scene::{Bystander, end_of, quick},
};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;

use crate::nodes::{Stage, condition, entry, holders, is_cordoned, phases};

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_moves_every_pod_and_its_deletion_uncordons_the_node() {
    let stage = Stage::new("course", 2).await;
    let old = stage.deployment("web", 6, json!({})).await;
    let there = stage.pods_on(0).await.len();
    assert!(there > 0, "{old:?}");

    stage.drain("d", &[0], json!({"requester": {"reason": "KernelUpgrade"}})).await;
    let status = stage.drained("d").await;
    assert_eq!(status.verdict, Some(DrainVerdict::Drained));
    assert!(status.is_true(DrainConditionType::Finished));
    let node = entry(&status, &stage.nodes[0]);
    assert_eq!((node.phase, node.cordoned), (DrainedNodePhase::Drained, CordonOwner::Ours));
    assert_eq!(usize::try_from(node.pods.gone).unwrap(), there, "{status:?}");
    assert_eq!((node.pods.total, status.pods.total), (node.pods.gone, node.pods.gone));
    assert_eq!(stage.pods_on(0).await, [] as [&str; 0]);
    stage.scene.ready_pods("web", 6, &[]).await;

    let live = stage.node(0).await;
    assert!(is_cordoned(&live));
    assert_eq!(holders(&live), Some(stage.name("d").as_str()));
    stage
        .node_until(0, "it is marked as drained", |node| {
            condition(node, "Drained").as_deref() == Some("True")
        })
        .await;

    stage.delete("d").await;
    let live = stage.node(0).await;
    assert!(!is_cordoned(&live) && holders(&live).is_none(), "{live:?}");
    stage
        .node_until(0, "its marks are gone", |node| condition(node, "Drained").as_deref() == Some("False"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_drain_belong_to_the_user_who_drains() {
    let stage = Stage::new("owner", 1).await;
    let spec = quick(PodSpec::watching()).on(&stage.nodes[0]);
    let pod = stage.scene.pod("app", spec).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    let asked = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(asked.spec.target.pod.name, pod.name_any());
    assert_eq!(asked.spec.requesters[0].owner, "admin");
    let entry = &asked.spec.requesters[0].name;
    assert!(entry.starts_with(&format!("drain.evacuation.dev/{}-", stage.name("d"))), "{entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_the_longest_legal_name_is_asked_and_moved() {
    let stage = Stage::new("names", 1).await;
    let name = "abcdefghi-".repeat(6).trim_end_matches('-').to_owned() + "xyz";
    let name = [name.as_str(); 5].join(".")[..253].to_owned();
    let pod = stage.scene.pod(&name, quick(PodSpec::watching()).on(&stage.nodes[0])).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    assert_eq!(stage.drained("d").await.pods.gone, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_drain_takes_its_requests_back_before_it_uncordons() {
    let stage = Stage::new("takeback", 1).await;
    let node = stage.nodes[0].clone();
    let annotations = json!({RESPONDERS_ANNOTATION: json!([{"name": "self"}]).to_string()});
    let pod = stage.deployment("web", 1, annotations).await.remove(0);
    let _app = stage.scene.app(&pod, |_| async { Answer::delay(std::time::Duration::from_mins(10)) }).await;
    stage.drain("d", &[0], json!({})).await;
    let status = stage.until("d", "the app delays", |status| status.pods.delayed == 1).await;
    assert_eq!(entry(&status, &node).cordoned, CordonOwner::Ours);

    stage.delete("d").await;
    let ended = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Canceled"), "{ended:?}");
    assert!(!is_cordoned(&stage.node(0).await));
    assert!(stage.scene.stays(&pod).await);

    // A drain of the same name, at once: NVSentinel#1451, #1415.
    stage.drain("d", &[0], json!({"requester": {"deadlineSeconds": 1}})).await;
    stage.drained("d").await;
    assert!(!stage.scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncordon_by_someone_else_takes_the_drain_of_that_node_back() {
    let stage = Stage::new("uncordon", 1).await;
    let annotations = json!({RESPONDERS_ANNOTATION: json!([{"name": "self"}]).to_string()});
    let pod = stage.deployment("web", 1, annotations).await.remove(0);
    stage.drain("d", &[0], json!({})).await;
    stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    stage.scene.cordon(&stage.nodes[0], false).await;
    let status =
        stage.until("d", "the drain has ended", |status| status.is_true(DrainConditionType::Failed)).await;
    assert_eq!(phases(&status), [DrainedNodePhase::Withdrawn]);
    let ended = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Canceled"), "{ended:?}");
    assert!(stage.scene.stays(&pod).await);
    assert_eq!(holders(&stage.node(0).await), None);
}

/// # Attack
///
/// - Attacker: a tenant who labels its pods
/// - Act: gives a pod so many labels that the controller keeps only a part of them, so that a drain which
///   selects pods by a label passes it by and counts its node as drained
/// - Promise: 10
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_hides_from_no_drain_behind_labels_that_push_others_out_of_the_cache() {
    let stage = Stage::new("hidden", 1).await;
    let bystander = Bystander::new(&stage.scene).await;
    let on_node = || quick(PodSpec::default()).on(&stage.nodes[0]);
    // Whatever part of the labels is kept, by their order, lacks the one that the drain selects by.
    let hide = |spec: PodSpec, at: usize| spec.label(&format!("a-{at}"), "x").label(&format!("z-{at}"), "x");
    let hidden = (0..100).fold(on_node().label("mine", "yes"), hide);
    let hidden = stage.scene.pod("hidden", hidden).await;
    let plain = stage.scene.pod("plain", on_node().label("mine", "yes")).await;
    let other = stage.scene.pod("other", on_node().label("mine", "no")).await;
    let pods = json!({"unmanaged": "Evict", "selector": {"matchLabels": {"mine": "yes"}}});
    stage.drain("d", &[0], json!({"pods": pods})).await;
    stage.drained("d").await;
    assert!(!stage.scene.stays(&hidden).await && !stage.scene.stays(&plain).await);
    bystander.drains(&stage.scene).await;
    assert!(stage.scene.stays(&other).await, "a pod that the selector does not pick stays");
}
