//! Limits, order and pauses of drains, and the nodes that wait for their turn.

use evacuation_api::{DrainVerdict, DrainedNodePhase, NodeEvacuationStatus};
use evacuation_e2e::scene::answer;
use serde_json::json;

use crate::nodes::{Stage, condition, is_cordoned, is_due, phases};

fn count(status: &NodeEvacuationStatus, phase: DrainedNodePhase) -> usize {
    phases(status).into_iter().filter(|known| *known == phase).count()
}

/// The nodes that are done, the verdict, and the pods that are gone and held, as `kubectl get` shows them.
async fn columns(stage: &Stage, drain: &str) -> Vec<String> {
    let name = stage.name(drain);
    let command = ["get", "nodeevac", &name, "--no-headers"];
    let output = stage.scene.platform().kubectl(&command).await.unwrap();
    output.stdout.split_whitespace().skip(1).take(4).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_wait_for_their_turn_are_avoided_so_that_each_pod_moves_once() {
    let stage = Stage::new("rolling", 6).await;
    stage.deployment("web", 12, json!({})).await;
    let before: usize = 12;
    let drain = json!({"maxParallel": {"nodes": 2}, "paused": true});
    stage.drain("d", &[0, 1, 2, 3], drain).await;
    // No pod moves before every node has its taint.
    for number in 0..4 {
        stage.node_until(number, "it is due", is_due).await;
        let planned = |node: &_| condition(node, "MaintenancePlanned").as_deref() == Some("True");
        stage.node_until(number, "its maintenance is planned", planned).await;
    }
    stage.change("d", json!({"paused": false})).await;
    let status = stage.drained("d").await;
    for number in 0..4 {
        stage.node_until(number, "it is no longer due", |node| !is_due(node) && is_cordoned(node)).await;
    }
    let moved = usize::try_from(status.pods.gone).unwrap();
    assert!(moved <= before, "{moved} moves of {before} pods: {status:?}");
    stage.scene.ready_pods("web", 12, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_nodes_are_drained_at_a_time_than_the_limit() {
    let stage = Stage::new("limit", 3).await;
    // A pod with a responder that is silent keeps its node in progress.
    let spec = evacuation_e2e::scene::quick(evacuation_e2e::PodSpec::watching()).on(&stage.nodes[0]);
    let pod = stage.scene.pod("app", spec).await;
    let quick = || evacuation_e2e::scene::quick(evacuation_e2e::PodSpec::default());
    for number in [1, 2] {
        stage.scene.pod(&format!("later-{number}"), quick().on(&stage.nodes[number])).await;
    }
    let drain = json!({"maxParallel": {"nodes": 1}, "pods": {"unmanaged": "Evict"}});
    stage.drain("d", &[0, 1, 2], drain).await;
    let status = stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    assert_eq!(count(&status, DrainedNodePhase::Draining), 1);
    assert_eq!(count(&status, DrainedNodePhase::Pending), 2);
    assert!(!is_cordoned(&stage.node(1).await));
    // The progress counts the pods of the nodes that wait for their turn.
    assert_eq!((status.pods.total, status.pods.waiting), (3, 2), "{status:?}");
    assert_eq!(columns(&stage, "d").await, ["0/3", "Draining", "0/3", "0"]);
    // A delay holds the pod back, and no budget does.
    let asked = stage.scene.evacuation_of("app").await;
    let asked = stage.scene.reached(&asked, 0).await;
    let delay = json!({"answer": "Delay", "delaySeconds": 300});
    answer(&stage.scene.client_of(&pod).await, &asked, delay).await.unwrap();
    stage.until("d", "the app delays", |status| status.pods.delayed == 1).await;
    assert_eq!(columns(&stage, "d").await, ["0/3", "Slow", "0/3", "1"]);
    stage.scene.delete_pod(&pod).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (3, 3), "{status:?}");
    assert_eq!(columns(&stage, "d").await, ["3/3", "Drained", "3/3", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_drain_begins_nothing_until_it_is_resumed() {
    let stage = Stage::new("pause", 1).await;
    let status = {
        stage.drain("d", &[0], json!({"paused": true})).await;
        stage.until("d", "it is paused", |status| status.verdict == Some(DrainVerdict::Waiting)).await
    };
    assert_eq!(phases(&status), [DrainedNodePhase::Pending]);
    assert!(!is_cordoned(&stage.node(0).await));
    stage.change("d", json!({"paused": false})).await;
    stage.drained("d").await;
}
