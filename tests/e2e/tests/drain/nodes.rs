//! Nodes of one scene, drains of them, and workloads that run on them.

use std::time::Duration;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{
    CORDONED_BY_ANNOTATION, DUE_TAINT, DrainConditionType, DrainedNode, DrainedNodePhase, NodeEvacuation,
    NodeEvacuationStatus,
};
use evacuation_e2e::{
    Scene,
    scene::{PATIENCE, is_ready},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// A scene with nodes of its own, labelled `pool` with the namespace's name.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) scene: Scene,
    pub(crate) nodes: Vec<String>,
}

impl Stage {
    /// A namespace with that many nodes.
    pub(crate) async fn new(prefix: &str, nodes: usize) -> Self {
        Self::of(Scene::new(prefix).await, nodes).await
    }

    /// The namespace of that scene, with that many nodes.
    pub(crate) async fn of(scene: Scene, nodes: usize) -> Self {
        let mut stage = Self { scene, nodes: Vec::new() };
        for number in 0..nodes {
            stage.add_node(number).await;
        }
        stage
    }

    /// Adds a node.
    pub(crate) async fn add_node(&mut self, number: usize) -> String {
        let (namespace, name) = (self.scene.namespace(), format!("{}-{number}", self.scene.namespace()));
        self.scene.control_plane().add_node(&name, &[("pool", namespace)]).await.unwrap();
        self.nodes.push(name.clone());
        name
    }

    pub(crate) fn drains(&self) -> Api<NodeEvacuation> {
        Api::all(self.scene.admin())
    }

    pub(crate) fn node_api(&self) -> Api<Node> {
        Api::all(self.scene.admin())
    }

    /// The name of this scene's drain.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.scene.namespace())
    }

    /// Creates a drain of those nodes, with further fields of the spec.
    pub(crate) async fn drain(&self, name: &str, nodes: &[usize], more: Value) -> NodeEvacuation {
        let names: Vec<&String> = nodes.iter().map(|number| &self.nodes[*number]).collect();
        let mut spec = json!({"nodes": {"names": names}});
        merge(&mut spec, more);
        let drain = json!({"metadata": {"name": self.name(name)}, "spec": spec});
        let drain = serde_json::from_value(drain).unwrap();
        self.drains().create(&PostParams::default(), &drain).await.unwrap()
    }

    /// Changes the spec of a drain.
    pub(crate) async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.drains().patch(&self.name(name), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the status of a drain is as wanted.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&NodeEvacuationStatus) -> bool,
    ) -> NodeEvacuationStatus {
        self.until_within(PATIENCE, name, what, wanted).await
    }

    async fn until_within(
        &self,
        patience: Duration,
        name: &str,
        what: &str,
        wanted: impl Fn(&NodeEvacuationStatus) -> bool,
    ) -> NodeEvacuationStatus {
        let (api, name) = (self.drains(), self.name(name));
        let found = eventually(patience, what, || async {
            let status = api.get(&name).await?.status.unwrap_or_default();
            if wanted(&status) { Ok(status) } else { bail!("{}", serde_json::to_string(&status)?) }
        });
        found.await.unwrap()
    }

    /// Waits until a drain has drained its nodes.
    ///
    /// For two minutes a budget counts an eviction that the kube-apiserver of a busy machine did not finish.
    pub(crate) async fn drained(&self, name: &str) -> NodeEvacuationStatus {
        let is_drained = |status: &NodeEvacuationStatus| status.is_true(DrainConditionType::Drained);
        self.until_within(PATIENCE * 2, name, "the drain has ended", is_drained).await
    }

    /// Deletes a drain, and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str) {
        self.drains().delete(&self.name(name), &DeleteParams::default()).await.unwrap();
        self.gone(name).await;
    }

    /// Runs the command that begins like that and that the message of a blocker names.
    pub(crate) async fn runs_named(&self, message: &str, beginning: &str) {
        let place = message.find(beginning).unwrap_or_else(|| panic!("{beginning:?} is not in {message:?}"));
        let command = message[place..].split(';').next().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let output = self.scene.platform().kubectl(&words).await.unwrap();
        assert_eq!(output.code, Some(0), "{command}: {output:?}");
    }

    /// Waits until a drain is gone.
    pub(crate) async fn gone(&self, name: &str) {
        let (api, name) = (self.drains(), self.name(name));
        let gone = eventually(PATIENCE, "the drain is gone", || async {
            match api.get_opt(&name).await? {
                Some(found) => bail!("{}", serde_json::to_string(&found)?),
                None => Ok(()),
            }
        });
        gone.await.unwrap();
    }

    pub(crate) async fn node(&self, number: usize) -> Node {
        self.node_api().get(&self.nodes[number]).await.unwrap()
    }

    /// Waits until a node is as wanted.
    pub(crate) async fn node_until(&self, number: usize, what: &str, wanted: impl Fn(&Node) -> bool) {
        let found = eventually(PATIENCE, what, || async {
            let node = self.node(number).await;
            if wanted(&node) { Ok(()) } else { bail!("{}", serde_json::to_string(&node)?) }
        });
        found.await.unwrap();
    }

    /// Creates a Deployment of pods on this scene's nodes, and waits until they are ready.
    pub(crate) async fn deployment(&self, app: &str, replicas: i32, annotations: Value) -> Vec<Pod> {
        let pool = json!({"pool": self.scene.namespace()});
        let object = json!({
            "metadata": {"name": app},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": app}},
                "template": {
                    "metadata": {"labels": {"app": app}, "annotations": annotations},
                    "spec": {"nodeSelector": pool, "tolerations": controlplane::tolerations(), "containers": [{"name": "app", "image": "app"}]},
                },
            },
        });
        self.scene.create::<Deployment>(object).await;
        self.scene.ready_pods(app, usize::try_from(replicas).unwrap(), &[]).await
    }

    /// The pods of this scene on a node that are not terminating.
    pub(crate) async fn pods_on(&self, number: usize) -> Vec<String> {
        let pods = self.scene.pods.api().list(&ListParams::default()).await.unwrap().items;
        let there = |pod: &&Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            node == Some(&self.nodes[number]) && is_ready(pod)
        };
        pods.iter().filter(there).map(ResourceExt::name_any).collect()
    }
}

/// The entry of a node in a drain's status.
pub(crate) fn entry<'a>(status: &'a NodeEvacuationStatus, node: &str) -> &'a DrainedNode {
    status.nodes.iter().find(|known| known.name == node).unwrap()
}

/// The phases of a drain's nodes.
pub(crate) fn phases(status: &NodeEvacuationStatus) -> Vec<DrainedNodePhase> {
    status.nodes.iter().map(|node| node.phase).collect()
}

pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// The drains that hold a node's cordon.
pub(crate) fn holders(node: &Node) -> Option<&str> {
    node.annotations().get(CORDONED_BY_ANNOTATION).map(String::as_str)
}

pub(crate) fn is_due(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == DUE_TAINT && taint.effect == "PreferNoSchedule")
}

/// Status of a node's condition.
pub(crate) fn condition(node: &Node, kind: &str) -> Option<String> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map(|condition| condition.status.clone())
}

fn merge(into: &mut Value, patch: Value) {
    if let (Some(into), Value::Object(patch)) = (into.as_object_mut(), patch) {
        into.extend(patch);
    }
}
