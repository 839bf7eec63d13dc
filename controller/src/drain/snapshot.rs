//! The part of the cluster view that one drain depends on.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, DrainedNodePhase, Evacuation, NodeEvacuation};
use evacuation_protocol::{
    AttachFailure, DrainWorld, PodOnNode, RejectedNode, daemon_set_key, drain_entry, silent_since,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::ResourceExt;

use super::rejections::{Rejections, node_key};
use crate::cluster::{Index, ObjectKey, is_finished};

/// The nodes of a drain, their pods, and what the pods' moves depend on.
#[derive(Default)]
pub(super) struct Snapshot {
    nodes: Vec<Arc<Node>>,
    pods: Vec<SeenPod>,
    /// The pods on nodes whose drain has not begun, with the names of the nodes.
    waiting: Vec<(String, Arc<Pod>)>,
    entries: Vec<Arc<Evacuation>>,
    rejected_nodes: Vec<(String, String, DateTime<Utc>)>,
}

struct SeenPod {
    node: String,
    pod: Arc<Pod>,
    evacuations: Vec<Arc<Evacuation>>,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    unready: Vec<Arc<Pod>>,
    asked_beside: Option<String>,
    silent: Option<DateTime<Utc>>,
    rejected: Option<(String, DateTime<Utc>)>,
}

impl SeenPod {
    fn on_node(&self) -> PodOnNode<'_> {
        PodOnNode {
            node: &self.node,
            pod: &self.pod,
            evacuations: self.evacuations.iter().map(AsRef::as_ref).collect(),
            budgets: self.budgets.iter().map(AsRef::as_ref).collect(),
            unready: self.unready.iter().map(AsRef::as_ref).collect(),
            asked_beside: self.asked_beside.as_deref(),
            node_silent_since: self.silent,
            rejected: self.rejected.as_ref().map(|(message, since)| (message.as_str(), *since)),
        }
    }
}

impl Snapshot {
    /// Takes the snapshot.
    pub(super) fn of(
        index: &Index,
        key: &ObjectKey,
        drain: &NodeEvacuation,
        rejections: &Rejections,
        departed: &[Arc<Evacuation>],
    ) -> Self {
        let status = drain.status.as_ref();
        let taken_in = status.iter().flat_map(|status| &status.nodes).map(|node| &node.name);
        let names: BTreeSet<&String> = drain.spec.nodes.names.iter().chain(taken_in).collect();
        // A selector picks from all nodes.
        let nodes = if drain.spec.nodes.selector.is_some() {
            index.nodes().cloned().collect()
        } else {
            names.iter().filter_map(|name| index.node(name)).collect()
        };
        let draining = status.iter().flat_map(|status| &status.nodes);
        let draining = draining
            .filter(|node| matches!(node.phase, DrainedNodePhase::Draining | DrainedNodePhase::Withdrawn));
        let mut unready = HashMap::new();
        let mut asked_in = HashMap::new();
        let mut pods = Vec::new();
        for node in draining {
            let silent = index.node(&node.name).and_then(|node| silent_since(&node));
            for pod in index.pods_on(&node.name) {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let mut of_pod = index.evacuations_of(&ObjectKey::of(pod.as_ref()));
                of_pod.extend(departed.iter().cloned());
                of_pod.retain(|evacuation| evacuation.spec.target.pod.uid.as_deref() == Some(uid));
                let budgets = index.budgets_of(pod);
                let asked = of_pod.iter().any(|evacuation| !is_finished(evacuation));
                let held = asked && budgets.iter().any(|budget| allows_none(budget));
                let waits_for = if held { unready_of(index, &budgets, &mut unready) } else { Vec::new() };
                let waits = of_pod.iter().any(|evacuation| awaits_turn(evacuation));
                let asked_beside = if waits { asked_beside(index, &budgets, &mut asked_in) } else { None };
                pods.push(SeenPod {
                    asked_beside,
                    node: node.name.clone(),
                    pod: Arc::clone(pod),
                    evacuations: of_pod,
                    budgets,
                    unready: waits_for,
                    silent,
                    rejected: rejections.of(key, uid),
                });
            }
        }
        let pending = status.iter().flat_map(|status| &status.nodes);
        let pending = pending.filter(|node| node.phase == DrainedNodePhase::Pending);
        let pods_on = |name: &String| {
            index.pods_on(name).map(|pod| (name.clone(), Arc::clone(pod))).collect::<Vec<_>>()
        };
        let waiting = pending.flat_map(|node| pods_on(&node.name)).collect();
        let deleted = drain.metadata.deletion_timestamp.is_some();
        let entries = if deleted { entries(index, drain) } else { Vec::new() };
        let rejected = |node: &&String| {
            let (message, since) = rejections.of(key, &node_key(node))?;
            Some(((*node).clone(), message, since))
        };
        let rejected_nodes = names.iter().filter_map(rejected).collect();
        Self { nodes, pods, waiting, entries, rejected_nodes }
    }

    /// Returns the node of that name.
    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().map(AsRef::as_ref).find(|node| node.metadata.name.as_deref() == Some(name))
    }

    /// Returns the UIDs of the pods of a node that is being drained.
    pub(super) fn uids_on(&self, node: &str) -> BTreeSet<&str> {
        let on_node = self.pods.iter().filter(|seen| seen.node == node);
        on_node.filter_map(|seen| seen.pod.metadata.uid.as_deref()).collect()
    }

    /// Returns the DaemonSets that the pods name as their controller, as `NAMESPACE/NAME`.
    pub(super) fn daemon_sets(&self) -> BTreeSet<String> {
        let seen = self.pods.iter().map(|seen| &seen.pod);
        seen.chain(self.waiting.iter().map(|(_, pod)| pod)).filter_map(|pod| daemon_set_key(pod)).collect()
    }

    /// Returns the pods for which the budgets of asked pods wait. A pod can be there more than once.
    pub(super) fn unready(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter().flat_map(|seen| &seen.unready)
    }

    /// Returns the snapshot as the plan takes it.
    pub(super) fn world(
        &self,
        missing_daemon_sets: BTreeSet<String>,
        attach_failures: Vec<AttachFailure>,
    ) -> DrainWorld<'_> {
        DrainWorld {
            nodes: self.nodes.iter().map(AsRef::as_ref).collect(),
            pods: self.pods.iter().map(SeenPod::on_node).collect(),
            waiting: self.waiting.iter().map(|(node, pod)| (node.as_str(), pod.as_ref())).collect(),
            entries: self.entries.iter().map(AsRef::as_ref).collect(),
            rejected_nodes: self
                .rejected_nodes
                .iter()
                .map(|(node, message, since)| RejectedNode { node, message, since: *since })
                .collect(),
            missing_daemon_sets,
            attach_failures,
        }
    }

    /// Returns the namespaces of the pods.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|seen| seen.pod.metadata.namespace.clone()).collect()
    }

    /// Returns the keys under which requests for its pods and nodes are rejected.
    pub(super) fn rejectable(&self) -> BTreeSet<String> {
        let pods = self.pods.iter().filter_map(|seen| seen.pod.metadata.uid.clone());
        pods.chain(self.nodes.iter().map(|node| node_key(&node.name_any()))).collect()
    }
}

/// Returns true while the pod is not asked before its budget has room for it.
fn awaits_turn(evacuation: &Evacuation) -> bool {
    let status = evacuation.status.as_ref();
    status.is_some_and(|status| status.reason() == Some(BlockedReason::AwaitingTurn))
}

/// Returns true when a budget allows no disruption now. The Evacuation can learn it later.
fn allows_none(budget: &PodDisruptionBudget) -> bool {
    let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
    allowed.unwrap_or_default() <= 0
}

/// The pods of those budgets that they do not count as healthy.
fn unready_of(
    index: &Index,
    budgets: &[Arc<PodDisruptionBudget>],
    known: &mut HashMap<ObjectKey, Vec<Arc<Pod>>>,
) -> Vec<Arc<Pod>> {
    let of = |budget: &Arc<PodDisruptionBudget>| {
        let key = ObjectKey::of(budget.as_ref());
        known.entry(key.clone()).or_insert_with(|| index.unready_of(&key)).clone()
    };
    budgets.iter().flat_map(of).collect()
}

/// The name of a pod of those budgets that was asked. Each budget's pods are searched once for a snapshot.
fn asked_beside(
    index: &Index,
    budgets: &[Arc<PodDisruptionBudget>],
    known: &mut HashMap<ObjectKey, Option<String>>,
) -> Option<String> {
    budgets.iter().find_map(|budget| {
        let key = ObjectKey::of(budget.as_ref());
        known.entry(key.clone()).or_insert_with(|| index.asked_in_budget(&key)).clone()
    })
}

/// The Evacuations that hold or held the drain's entry.
fn entries(index: &Index, drain: &NodeEvacuation) -> Vec<Arc<Evacuation>> {
    let Some(entry) = drain_entry(drain) else { return Vec::new() };
    let recorded = |evacuation: &Evacuation| {
        let status = evacuation.status.as_ref();
        status.is_some_and(|status| status.requesters.iter().any(|known| known.key() == entry.key()))
    };
    index.evacuations().map(|(_, e)| e).filter(|e| recorded(e)).cloned().collect()
}
