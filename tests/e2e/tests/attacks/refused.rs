//! A pod of a tenant that the rules of a drain refuse.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, DrainVerdict, NodeEvacuation};
use evacuation_e2e::scene::{Bystander, PATIENCE, is_ready};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::tenant::{scene, tenant};

/// Without `unmanaged: Evict` a drain leaves pods alone that no controller creates again.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: places a pod without a controller on the node that is to be drained
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_drain_must_leave_alone_does_not_keep_the_pods_of_others_on_the_node() {
    let scene = scene("bare").await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    let victim = scene.platform().namespace("victim").await.unwrap();
    let labels = json!({"app": "web"});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels},
    "template": {
        "metadata": {"labels": labels, "annotations": {"controlplane.test/gone-after": "0s"}},
        "spec": {"nodeSelector": {"test": scene.namespace()}, "tolerations": controlplane::tolerations(),
                 "containers": [{"name": "app", "image": "app"}]},
    }}});
    let deployments: Api<Deployment> = Api::namespaced(scene.admin(), victim.namespace());
    let web = serde_json::from_value(web).unwrap();
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let count = async || {
        let pods = victim.api().list(&ListParams::default()).await?.items;
        anyhow::Ok(pods.iter().filter(|pod| is_ready(pod)).count())
    };
    let ready = eventually(PATIENCE, "the pods of the victim run", || async {
        match count().await? {
            2 => Ok(()),
            other => bail!("{other} of 2"),
        }
    });
    ready.await.unwrap();
    let bare = json!({"metadata": {"name": "bare"}, "spec": {"nodeName": node, "containers": [
        {"name": "app", "image": "app"}]}});
    let pods: Api<Pod> = Api::namespaced(tenant.client.clone(), scene.namespace());
    let bare = pods.create(&PostParams::default(), &serde_json::from_value(bare).unwrap()).await.unwrap();

    let drains: Api<NodeEvacuation> = Api::all(beside.drainer().user.client.clone());
    let drain = json!({"metadata": {"name": format!("of-{node}")}, "spec": {"nodes": {"names": [node]}}});
    let name = format!("of-{node}");
    drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
    let moved = eventually(PATIENCE, "the pods of the victim have moved", || async {
        let status = drains.get(&name).await?.status.unwrap_or_default();
        let names_it = status.blockers.iter().any(|b| b.reason == DrainBlockerReason::Unmanaged.as_str());
        if status.pods.gone == 2 && names_it && status.verdict == Some(DrainVerdict::Stuck) {
            return Ok(());
        }
        bail!("{}", serde_json::to_string(&status)?)
    });
    moved.await.unwrap();
    assert_eq!(count().await.unwrap(), 0, "the node is cordoned");
    beside.drains(&scene).await;
    assert!(scene.stays(&bare).await);
    assert_eq!(scene.evictions("bare").len(), 0);
    scene.left_alone("bare");
}
