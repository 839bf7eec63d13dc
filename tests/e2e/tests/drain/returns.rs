//! Pods that come back to a node that is being drained.

use evacuation_api::{DrainBlockerReason, DrainVerdict};
use evacuation_e2e::scene::Bystander;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;

use crate::nodes::{Stage, entry};

/// # Attack
///
/// - Attacker: a tenant whose pod tolerates every taint and selects the node
/// - Act: is back on the node each time that the drain has evicted it
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_is_evicted_in_rounds_until_its_way_out_is_taken() {
    let stage = Stage::new("returns", 1).await;
    let bystander = Bystander::new(&stage.scene).await;
    let deployment = json!({
        "metadata": {"name": "op"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "op"}},
            "template": {
                "metadata": {"labels": {"app": "op"}, "annotations": {"controlplane.test/gone-after": "100ms"}},
                "spec": {
                    "nodeSelector": {"pool": stage.scene.namespace()},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
        },
    });
    stage.scene.create::<Deployment>(deployment).await;
    stage.scene.ready_pods("op", 1, &[]).await;
    stage.drain("d", &[0], json!({})).await;
    let comes_back = DrainBlockerReason::ComesBack.as_str();
    let status = stage
        .until("d", "the drain is stuck", |status| {
            status.blockers.iter().any(|blocker| blocker.reason == comes_back && blocker.stuck)
        })
        .await;
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck), "{status:?}");
    bystander.drains(&stage.scene).await;
    let said = &status.blockers[0].message;
    assert!(said.contains(&format!("kubectl evacuate set {} --skip-late-pods", stage.name("d"))), "{said}");
    let asked = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.len();
    let now = stage.drains().get(&stage.name("d")).await.unwrap().status.unwrap();
    let returned = &entry(&now, &stage.nodes[0]).returned;
    let rounds = usize::try_from(returned[0].rounds).unwrap();
    assert!(returned.len() == 1 && rounds >= 3 && asked <= rounds + 1, "{asked}: {returned:?}");
    let asked = i32::try_from(asked).unwrap();
    stage.until("d", "the pods that were asked are gone", |status| status.pods.gone >= asked).await;

    stage.change("d", json!({"pods": {"late": "Skip"}})).await;
    let status = stage.drained("d").await;
    assert!(status.pods.gone >= asked, "{status:?}");
    stage.scene.ready_pods("op", 1, &[]).await;
}
