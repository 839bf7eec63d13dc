//! Nodes that go, pods that come, tenants that delay, and many pods at once.

use std::time::Duration;

use chrono::{TimeDelta, Timelike};
use evacuation_api::{
    CordonOwner, DrainedNodePhase, EvacuationResponder, MAX_REQUESTERS, NodeEvacuationStatus,
    from_condition_time,
};
use evacuation_client::Answer;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{entry as entry_of, put_entries, quick, until_time, wanting},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::nodes::{Stage, entry, holders, is_cordoned, phases};

/// Creates a pod without a controller on a node of the stage.
async fn pod_on(stage: &Stage, node: usize, name: &str, spec: PodSpec) -> Pod {
    stage.scene.pod(name, spec.on(&stage.nodes[node])).await
}

async fn asked_pods(scene: &Scene) -> Vec<String> {
    let all = scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    all.into_iter().map(|evacuation| evacuation.spec.target.pod.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_is_gone_and_a_later_node_of_its_name_is_not_drained() {
    let stage = Stage::new("gone", 2).await;
    pod_on(&stage, 0, "silent", PodSpec::watching()).await;
    // It takes a while until the pods of a deleted node are gone.
    let patient = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 600}]));
    let other = pod_on(&stage, 1, "other", patient).await;
    stage.drain("d", &[0, 1], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.until("d", "both are asked", |status| status.pods.asked == 2).await;
    let name = stage.nodes[0].clone();
    stage.node_api().delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = |status: &_| entry(status, &name).phase == DrainedNodePhase::Gone;
    let status = stage.until("d", "the node is gone", gone).await;
    assert_eq!(entry(&status, &name).cordoned, CordonOwner::No);

    stage.scene.control_plane().add_node(&name, &[("pool", stage.scene.namespace())]).await.unwrap();
    let later = pod_on(&stage, 0, "later", PodSpec::default()).await;
    let _app = stage.scene.app(&other, |_| async { Answer::accept() }).await;
    let status = stage.drained("d").await;
    assert_eq!(phases(&status), [DrainedNodePhase::Gone, DrainedNodePhase::Drained]);
    let node = stage.node(0).await;
    assert!(!is_cordoned(&node) && holders(&node).is_none());
    assert!(stage.scene.stays(&later).await);
    assert!(!asked_pods(&stage.scene).await.contains(&"later".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_land_on_a_node_that_is_not_cordoned_are_asked_too() {
    let stage = Stage::new("late", 1).await;
    let first = pod_on(&stage, 0, "first", PodSpec::watching()).await;
    let drain = json!({"cordon": "Never", "pods": {"unmanaged": "Evict"}});
    stage.drain("d", &[0], drain).await;
    stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    assert!(!is_cordoned(&stage.node(0).await));
    // Its app is not asked when its containers do not run yet. It terminates for long enough that a status
    // counts it: a pod that comes and goes between two statuses is in none.
    let second = json!({
        "metadata": {"name": "second", "annotations": {"controlplane.test/gone-after": "3s"}},
        "spec": {"nodeName": stage.nodes[0], "containers": [{"name": "app", "image": "app"}]},
    });
    let second = stage.scene.raw_pod(&second).await;
    stage.scene.pods.gone(&second).await.unwrap();
    assert!(asked_pods(&stage.scene).await.contains(&"second".to_owned()));
    assert!(stage.scene.stays(&first).await);
    let _app = stage.scene.app(&first, |_| async { Answer::accept() }).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (2, 2));
    assert!(!is_cordoned(&stage.node(0).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_pods_are_left_alone_when_the_drain_says_so() {
    let stage = Stage::new("skip", 1).await;
    let first = pod_on(&stage, 0, "first", PodSpec::watching()).await;
    let drain = json!({"cordon": "Never", "pods": {"unmanaged": "Evict", "late": "Skip"}});
    stage.drain("d", &[0], drain).await;
    let status = stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    // The creation time of a pod has whole seconds.
    let begun = entry(&status, &stage.nodes[0]).start_time.unwrap().0;
    until_time((begun + TimeDelta::seconds(1)).with_nanosecond(0).unwrap()).await;
    let late = pod_on(&stage, 0, "late", PodSpec::default()).await;
    let _app = stage.scene.app(&first, |_| async { Answer::accept() }).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1));
    assert!(stage.scene.stays(&late).await);
    assert_eq!(asked_pods(&stage.scene).await, ["first"]);
}

/// Fills the entries of a pod's Evacuation, by as many users of the tenant as that needs.
async fn fill(scene: &Scene, pod: &Pod) {
    let window = json!({"schedule": "0 3 1 1 *", "durationSeconds": 3600, "timeZone": "Etc/UTC"});
    let mut evacuation = None;
    for number in 0..4 {
        let user = scene.user(&format!("tenant-{number}"), &["edit"]).await;
        let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
        scene.decided(&user.name, &right, true).await;
        let api = scene.evacuations_as(&user.client);
        let own = |n| entry_of(&format!("tenant.acme.io/{number}-{n}"), json!({"window": window}));
        let own: Vec<Value> = (0..MAX_REQUESTERS / 4).map(own).collect();
        evacuation = Some(match evacuation {
            None => api.create(&PostParams::default(), &wanting(&pod.name_any(), &own)).await.unwrap(),
            Some(known) => {
                let known: evacuation_api::Evacuation = known;
                let others = known.spec.requesters.iter().map(|r| serde_json::to_value(r).unwrap());
                put_entries(&api, &known, &others.chain(own).collect::<Vec<_>>()).await.unwrap()
            }
        });
    }
    assert_eq!(evacuation.unwrap().spec.requesters.len(), MAX_REQUESTERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_delays_and_fills_the_entries_holds_up_neither_others_nor_the_deadline() {
    let stage = Stage::new("tenant", 1).await;
    let scene = &stage.scene;
    let never = "tenant.acme.io/never";
    let responder: EvacuationResponder =
        scene.register("never", never, json!({"maxDelaySeconds": 7 * 24 * 3600})).await;
    assert_eq!(responder.spec.name, never);
    let _delays = scene.responder(never, |_| async { Answer::delay(Duration::from_hours(24)) });
    let held = pod_on(&stage, 0, "held", PodSpec::default()).await;
    fill(scene, &held).await;
    let others = scene.platform().namespace("others").await.unwrap();
    let mut beside = Vec::new();
    for number in 0..3 {
        let spec = quick(PodSpec::default()).on(&stage.nodes[0]);
        beside.push(others.create(&format!("app-{number}"), &spec).await.unwrap());
    }

    let deadline = |seconds| json!({"deadlineSeconds": seconds, "atDeadline": "Evict"});
    let drain = json!({"requester": deadline(600), "pods": {"unmanaged": "Evict"}});
    stage.drain("d", &[0], drain).await;
    for pod in &beside {
        others.gone(pod).await.unwrap();
    }
    let delays =
        |status: &NodeEvacuationStatus| status.pods.delayed == 1 && status.expected_completion.is_some();
    let status = stage.until("d", "the responder delays", delays).await;
    // The deadline limits the delay, which has whole seconds.
    let deadline_time = status.start_time.unwrap().0 + TimeDelta::seconds(600);
    let left = deadline_time - status.expected_completion.unwrap().0;
    assert!((TimeDelta::zero()..TimeDelta::seconds(1)).contains(&left), "{status:?}");
    assert!(scene.stays(&held).await);
    stage.change("d", json!({"requester": deadline(1)})).await;
    stage.drained("d").await;
    assert_eq!(scene.evictions("held").iter().filter(|event| event.code() == 201).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_of_a_node_are_asked_soon_after_its_cordon_and_all_go() {
    let mut stage = Stage::new("hundred", 1).await;
    let quick = json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
    stage.deployment("web", 100, quick).await;
    stage.add_node(1).await;
    stage.drain("d", &[0], json!({})).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (100, 100));
    let begun = entry(&status, &stage.nodes[0]).start_time.unwrap().0;
    let all = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 100);
    let asked = all.iter().filter_map(|e| e.metadata.creation_timestamp.as_ref()).map(from_condition_time);
    let last = asked.max().unwrap();
    println!("the last of 100 pods was asked {} after the drain began", last - begun);
    assert!(last < begun + TimeDelta::minutes(1), "begun at {begun}, the last was asked at {last}");
    stage.scene.ready_pods("web", 100, &[]).await;
}
