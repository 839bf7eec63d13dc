//! Nodes of a scene, the pods on them, and the course of their drains.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{
    DrainBlocker, DrainBlockerReason, DrainConditionType, NodeEvacuation, NodeEvacuationStatus,
};
use evacuation_client::Answer;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{PATIENCE, Running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};

/// A node of the scene's own, with one pod on it whose app always gives that answer.
pub(crate) struct Room {
    pub(crate) node: String,
    pub(crate) pod: Pod,
    _app: Running,
}

impl Room {
    pub(crate) async fn new(scene: &Scene, answer: Answer) -> Self {
        let node = scene.own_node().await;
        let pod = scene.pod("app", PodSpec::watching().on(&node)).await;
        let answering = move |_| {
            let answer = answer.clone();
            async move { answer }
        };
        let app = scene.app(&pod, answering).await;
        Self { node, pod, _app: app }
    }
}

/// The only drain of a node.
pub(crate) async fn drain_of(scene: &Scene, node: &str) -> NodeEvacuation {
    let api: Api<NodeEvacuation> = Api::all(scene.admin());
    let mut all = api.list(&ListParams::default()).await.unwrap().items;
    all.retain(|drain| drain.spec.nodes.names == [node]);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    all.remove(0)
}

/// The command that shows the drains of a node once.
pub(crate) fn status(node: &str) -> String {
    format!("kubectl evacuate status {node} --watch=false")
}

/// Waits until the drain of a node lists so many stuck blockers of that reason, and no other.
pub(crate) async fn stuck(scene: &Scene, node: &str, reason: DrainBlockerReason, pods: usize) {
    let of = |status: &NodeEvacuationStatus| {
        let is_it = |blocker: &DrainBlocker| blocker.stuck && blocker.reason == reason.as_str();
        status.blockers.len() == pods && status.blockers.iter().all(is_it)
    };
    until(scene, node, &format!("{reason:?} holds {pods}"), of).await;
}

/// Waits until the drain of a node lists a blocker of that reason.
pub(crate) async fn held(scene: &Scene, node: &str, reason: DrainBlockerReason) {
    let of = |status: &NodeEvacuationStatus| {
        status.blockers.iter().any(|blocker| blocker.reason == reason.as_str())
    };
    until(scene, node, &format!("{reason:?} holds a pod"), of).await;
}

/// Waits until the drain of a node lists a stuck blocker of that reason, also beside others.
pub(crate) async fn stuck_beside(scene: &Scene, node: &str, reason: DrainBlockerReason) -> DrainBlocker {
    let is_it = |blocker: &&DrainBlocker| blocker.stuck && blocker.reason == reason.as_str();
    let of = |status: &NodeEvacuationStatus| status.blockers.iter().any(|blocker| is_it(&blocker));
    let found = until(scene, node, &format!("{reason:?} holds a pod for ever"), of).await;
    found.blockers.into_iter().find(|blocker| is_it(&blocker)).unwrap()
}

/// Waits until the drain of a node lists a blocker of that reason that ends by itself.
pub(crate) async fn slow(scene: &Scene, node: &str, reason: DrainBlockerReason) -> DrainBlocker {
    let is_it = |blocker: &&DrainBlocker| !blocker.stuck && blocker.reason == reason.as_str();
    let of = |status: &NodeEvacuationStatus| status.blockers.iter().any(|blocker| is_it(&blocker));
    let found = until(scene, node, &format!("{reason:?} holds a pod for a while"), of).await;
    found.blockers.into_iter().find(|blocker| is_it(&blocker)).unwrap()
}

/// Waits until a node is drained.
pub(crate) async fn drained(scene: &Scene, node: &str) -> NodeEvacuationStatus {
    until(scene, node, "it is drained", |status| status.is_true(DrainConditionType::Drained)).await
}

async fn until(
    scene: &Scene,
    node: &str,
    what: &str,
    wanted: impl Fn(&NodeEvacuationStatus) -> bool,
) -> NodeEvacuationStatus {
    let name = drain_of(scene, node).await.name_any();
    let api: Api<NodeEvacuation> = Api::all(scene.admin());
    let found = eventually(PATIENCE, what, || async {
        let status = api.get(&name).await?.status.unwrap_or_default();
        if wanted(&status) { Ok(status) } else { bail!("{}", serde_json::to_string(&status)?) }
    });
    found.await.unwrap()
}
