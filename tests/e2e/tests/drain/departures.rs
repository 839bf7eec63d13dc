//! Nodes that leave their drain: deleted and uncordoned ones.

use std::time::Duration;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, DrainConditionType, DrainVerdict, DrainedNodePhase};
use evacuation_e2e::{PodSpec, scene::answer};
use kube::api::DeleteParams;
use serde_json::json;

use crate::nodes::{Stage, entry, phases};

/// Time within which Kubernetes removes the pods of a deleted node, and some more.
const REMOVAL: Duration = Duration::from_secs(150);

#[tokio::test(flavor = "multi_thread")]
async fn the_drain_of_a_node_that_is_deleted_ends_when_kubernetes_has_removed_its_pods() {
    let stage = Stage::new("deleted", 2).await;
    let responders = json!([{"name": "self", "timeoutSeconds": 600}]);
    stage.scene.pod("app", PodSpec::registered(&responders).on(&stage.nodes[0])).await;
    stage.drain("d", &[0, 1], json!({"pods": {"unmanaged": "Evict"}, "maxParallel": {"nodes": 1}})).await;
    stage.until("d", "the app is asked", |status| status.pods.asked == 1).await;

    stage.node_api().delete(&stage.nodes[0], &DeleteParams::default()).await.unwrap();
    let found = |status: &evacuation_api::NodeEvacuationStatus| status.nodes[0].deleted_time.is_some();
    let status = stage.until("d", "the node is found deleted", found).await;
    assert_eq!((status.verdict, status.pods.evicting), (Some(DrainVerdict::Slow), 1), "{status:?}");
    assert_eq!(phases(&status), [DrainedNodePhase::Draining, DrainedNodePhase::Pending]);
    let blocker = &status.blockers[0];
    assert_eq!((blocker.reason.as_str(), blocker.stuck), (DrainBlockerReason::NodeDeleted.as_str(), false));
    let said = format!("node {} was deleted at ", stage.nodes[0]);
    assert!(status.message.as_ref().unwrap().contains(&said), "{status:?}");

    let (api, name) = (stage.drains(), stage.name("d"));
    let ended = eventually(REMOVAL, "the drain has ended", || async {
        let status = api.get(&name).await?.status.unwrap_or_default();
        let stuck = status.verdict == Some(DrainVerdict::Stuck);
        assert!(!stuck, "Kubernetes removes the pods before the drain is stuck: {status:?}");
        let ended = status.is_true(DrainConditionType::Drained);
        if ended { Ok(status) } else { bail!("{}", serde_json::to_string(&status)?) }
    });
    let status = ended.await.unwrap();
    assert_eq!(phases(&status), [DrainedNodePhase::Gone, DrainedNodePhase::Drained]);
    assert_eq!((status.pods.gone, status.pods.total), (1, 1), "{status:?}");
    assert!(status.message.as_ref().unwrap().contains(&said), "{status:?}");
    assert_eq!(stage.scene.evictions("app").len(), 0, "its app had time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_uncordoned_counts_its_pods_no_more() {
    let stage = Stage::new("uncounted", 1).await;
    let pod = stage.scene.pod("app", PodSpec::watching().on(&stage.nodes[0])).await;
    let app = stage.scene.client_of(&pod).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    let evacuation = stage.scene.reached(&evacuation, 0).await;
    answer(&app, &evacuation, json!({"answer": "Delay", "delaySeconds": 300})).await.unwrap();
    stage.until("d", "the pod is delayed", |status| status.pods.delayed == 1).await;
    stage.scene.cordon(&stage.nodes[0], false).await;
    let status = stage.until("d", "it fails", |status| status.is_true(DrainConditionType::Failed)).await;
    assert_eq!(status.verdict, Some(DrainVerdict::Failed));
    let node = entry(&status, &stage.nodes[0]);
    assert_eq!((node.phase, node.pods.delayed, node.pods.total), (DrainedNodePhase::Withdrawn, 0, 0));
    assert!(status.message.as_ref().unwrap().contains("the drain took its requests back"), "{status:?}");
    assert!(stage.scene.stays(&pod).await);
}
