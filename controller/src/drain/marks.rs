//! The feature that marks nodes: the taint of those that are due, and the conditions that tell others. It
//! also releases nodes from drains that no longer exist.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use evacuation_api::{DrainedNodePhase, NodeEvacuation};
use evacuation_protocol::{
    LIFECYCLE_CONDITIONS, condition_changes, cordon_holders, due_taints, forget_holders, release,
};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::nodes::NodeWriter;
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, Feature, Kind, ObjectKey, Requeue, ServerClock, View,
    WorkQueue, WorkerSettings, call,
};

/// The feature that keeps up the marks of nodes. Its keys are nodes.
pub(crate) struct NodeMarks {
    client: Client,
    nodes: NodeWriter,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    queue: WorkQueue<ObjectKey>,
}

impl NodeMarks {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            client: cluster.client.clone(),
            nodes: NodeWriter::new(cluster),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            queue: WorkQueue::default(),
        })
    }

    fn wake(&self, drain: Option<&NodeEvacuation>) {
        let nodes = drain.and_then(|drain| drain.status.as_ref()).into_iter().flat_map(|s| &s.nodes);
        self.queue.add_all(nodes.map(|node| ObjectKey::new("", &node.name)));
    }

    /// Drains that hold the node's cordon, and that the view does not show.
    fn unknown_holders(&self, node: &Node) -> Vec<String> {
        let index = self.view.index();
        let unknown = |name: &&str| index.drain(&ObjectKey::new("", *name)).is_none();
        cordon_holders(node).into_iter().filter(unknown).map(str::to_owned).collect()
    }

    /// Releases a node from a drain that no longer exists: an admin removed its finalizer, or a cordon of an
    /// earlier leader was carried out late. A live read confirms it. Returns true when the node was released.
    async fn release_from_the_gone(&self, node: &Node) -> Result<bool, CallError> {
        for holder in self.unknown_holders(node) {
            let api: Api<NodeEvacuation> = Api::all(self.client.clone());
            let live = call(format!("read nodeevacuation {holder}"), api.get_opt(&holder)).await?;
            if let (None, Some(change)) = (live, release(node, &holder)) {
                self.nodes.change_cordon(node, change, "release").await?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The part of a node from which its marks follow, and the marks.
fn marks_of(node: &Node) -> impl PartialEq {
    let spec = node.spec.as_ref();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions.into_iter().filter(|c| LIFECYCLE_CONDITIONS.contains(&c.type_.as_str()));
    (
        spec.and_then(|spec| spec.unschedulable),
        spec.and_then(|spec| spec.taints.clone()),
        conditions.map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone())).collect::<Vec<_>>(),
    )
}

/// The time since which a condition has that value.
fn since(node: &Node, condition: &str, value: &str) -> Option<String> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let known = conditions.into_iter().find(|c| c.type_ == condition && c.status == value)?;
    known.last_transition_time.as_ref().map(|time| time.0.to_string())
}

/// Returns true while a drain is at work on the node. It takes its requests back before it lets go of a node
/// that someone else uncordoned.
fn is_drained_by(drain: &NodeEvacuation, node: &Node) -> bool {
    let nodes = drain.status.iter().flat_map(|status| &status.nodes);
    let mut same = nodes.filter(|known| Some(&known.name) == node.metadata.name.as_ref());
    drain.metadata.deletion_timestamp.is_none() && same.any(|known| known.phase == DrainedNodePhase::Draining)
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
        if let ClusterEvent::Node(Change { key, old, new: Some(node), .. }) = event
            && (old.as_deref().is_some_and(|old| marks_of(old) != marks_of(node))
                || forget_holders(node).is_some()
                || !self.unknown_holders(node).is_empty())
        {
            self.queue.add(key.clone());
        }
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
            let held = !cordon_holders(node).is_empty();
            held || due_taints(node, drains()).is_some() || !condition_changes(node, drains()).is_empty()
        };
        let left = index.nodes().filter(|node| marked(node)).map(|node| node.name_any());
        let listed = index.drains().filter_map(|(_, drain)| drain.status.as_ref());
        let listed = listed.flat_map(|status| &status.nodes).map(|node| node.name.clone());
        let names: BTreeSet<String> = left.chain(listed).collect();
        drop(index);
        self.queue.add_all(names.into_iter().map(|name| ObjectKey::new("", name)));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let (node, drains) = {
            let index = self.view.index();
            let Some(node) = index.node(&key.name) else { return Ok(Requeue::OnEvent) };
            (node, index.drains().map(|(_, drain)| Arc::clone(drain)).collect::<Vec<_>>())
        };
        let all = || drains.iter().map(AsRef::as_ref);
        if let Some(taints) = due_taints(&node, all()) {
            self.nodes.replace_taints(&node, &taints).await?;
            return Ok(Requeue::Now);
        }
        let draining = || all().any(|drain| is_drained_by(drain, &node));
        if let Some(change) = forget_holders(&node)
            && !draining()
        {
            self.nodes.change_cordon(&node, change, "forget the holders of").await?;
            return Ok(Requeue::Now);
        }
        if self.release_from_the_gone(&node).await? {
            return Ok(Requeue::Now);
        }
        let now = self.clock.now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions: Vec<Value> = condition_changes(&node, all())
            .into_iter()
            .map(|mark| {
                let value = if mark.value { "True" } else { "False" };
                // A change of the message alone is no transition.
                let since = since(&node, mark.condition, value).unwrap_or_else(|| now.clone());
                json!({
                    "type": mark.condition, "status": value, "reason": mark.reason, "message": mark.message,
                    "lastTransitionTime": since, "lastHeartbeatTime": now,
                })
            })
            .collect();
        if !conditions.is_empty() {
            self.nodes.set_conditions(&node, &conditions).await?;
        }
        Ok(Requeue::OnEvent)
    }
}
