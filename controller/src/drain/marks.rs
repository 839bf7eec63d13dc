//! The feature that marks nodes: the taint of those that are due, and the conditions that tell others.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use evacuation_api::NodeEvacuation;
use evacuation_protocol::{condition_changes, due_taints};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::acts::FIELD_MANAGER;
use crate::cluster::{
    CallError, Cluster, ClusterEvent, Feature, Kind, Leadership, ObjectKey, Requeue, ServerClock, View,
    WorkQueue, WorkerSettings, call,
};

/// The feature that keeps up the marks of nodes. Its keys are nodes.
pub(crate) struct NodeMarks {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    queue: WorkQueue<ObjectKey>,
}

impl NodeMarks {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            queue: WorkQueue::default(),
        })
    }

    fn wake(&self, drain: Option<&NodeEvacuation>) {
        let nodes = drain.and_then(|drain| drain.status.as_ref()).into_iter().flat_map(|s| &s.nodes);
        self.queue.add_all(nodes.map(|node| ObjectKey::new("", &node.name)));
    }

    /// Writes the taints of the node that was decided on.
    async fn taint(&self, node: &Node, taints: Value) -> Result<(), CallError> {
        let metadata = json!({"uid": node.uid(), "resourceVersion": node.resource_version()});
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"taints": taints}}));
        let name = node.name_any();
        let api: Api<Node> = Api::all(self.client.clone());
        self.keep(call(format!("taint node {name}"), api.patch(&name, &parameters(), &patch)).await?);
        Ok(())
    }

    /// Writes conditions of a node. Each is one item of a list map, so that it replaces no other.
    async fn set(&self, node: &Node, conditions: Vec<Value>) -> Result<(), CallError> {
        let metadata = json!({"uid": node.uid()});
        let patch = Patch::Strategic(json!({"metadata": metadata, "status": {"conditions": conditions}}));
        let name = node.name_any();
        let api: Api<Node> = Api::all(self.client.clone());
        let parameters = parameters();
        let write = api.patch_status(&name, &parameters, &patch);
        self.keep(call(format!("set the conditions of node {name}"), write).await?);
        Ok(())
    }

    fn keep(&self, mut node: Node) {
        node.metadata.managed_fields = None;
        self.view.apply(node);
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

#[async_trait]
impl Feature for NodeMarks {
    fn name(&self) -> &'static str {
        "node marks"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::NodeEvacuations, Kind::Nodes]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 2, pause: (Duration::from_millis(250), Duration::from_secs(30)) }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let ClusterEvent::NodeEvacuation(change) = event {
            let phases = |drain: Option<&NodeEvacuation>| {
                let deleted = drain.is_some_and(|drain| drain.metadata.deletion_timestamp.is_some());
                let nodes = drain.and_then(|drain| drain.status.as_ref()).into_iter().flat_map(|s| &s.nodes);
                let phases: Vec<_> = nodes.map(|node| (node.name.clone(), node.phase)).collect();
                (deleted, phases)
            };
            if phases(change.old.as_deref()) != phases(change.new.as_deref()) {
                self.wake(change.old.as_deref());
                self.wake(change.new.as_deref());
            }
        }
    }

    fn resync(&self) {
        let index = self.view.index();
        let marked = |node: &Node| {
            let drains = std::iter::empty::<&NodeEvacuation>;
            due_taints(node, drains()).is_some() || !condition_changes(node, drains()).is_empty()
        };
        let left = index.nodes().filter(|node| marked(node)).map(|node| node.name_any());
        let listed = index.drains().filter_map(|(_, drain)| drain.status.as_ref());
        let listed = listed.flat_map(|status| &status.nodes).map(|node| node.name.clone());
        let names: BTreeSet<String> = left.chain(listed).collect();
        drop(index);
        self.queue.add_all(names.into_iter().map(|name| ObjectKey::new("", name)));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        self.leadership.check()?;
        let (node, drains) = {
            let index = self.view.index();
            let Some(node) = index.node(&key.name) else { return Ok(Requeue::OnEvent) };
            (node, index.drains().map(|(_, drain)| Arc::clone(drain)).collect::<Vec<_>>())
        };
        let all = || drains.iter().map(AsRef::as_ref);
        if let Some(taints) = due_taints(&node, all()) {
            self.taint(&node, json!(taints)).await?;
            return Ok(Requeue::Now);
        }
        let now = self.clock.now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions: Vec<Value> = condition_changes(&node, all())
            .into_iter()
            .map(|mark| {
                let value = if mark.value { "True" } else { "False" };
                json!({
                    "type": mark.condition, "status": value, "reason": mark.reason, "message": mark.message,
                    "lastTransitionTime": now, "lastHeartbeatTime": now,
                })
            })
            .collect();
        if !conditions.is_empty() {
            self.set(&node, conditions).await?;
        }
        Ok(Requeue::OnEvent)
    }
}
