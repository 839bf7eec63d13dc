//! Nodes in the index.

use std::{net::IpAddr, sync::Arc};

use chrono::{DateTime, Utc};
use evacuation_protocol::{project_node, silent_since};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for Node {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
    }

    fn project(&mut self) {
        project_node(self);
    }

    /// A node touches the Evacuations of its pods when it becomes reachable or unreachable.
    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey> {
        if change.old.as_deref().is_none_or(is_reachable) == change.new.as_deref().is_none_or(is_reachable) {
            return Vec::new();
        }
        let node = Some(change.key.name.as_str());
        let pods: Vec<&ObjectKey> = index
            .by_pod
            .keys()
            .filter(|key| index.pods.get(key).is_some_and(|pod| node_name(pod) == node))
            .collect();
        pods.into_iter().flat_map(|pod| index.active_of(pod)).collect()
    }
}

impl Index {
    /// The node of that name.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(&ObjectKey::new("", name)).cloned()
    }

    /// Every node, ordered by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().map(|(_, node)| node)
    }

    /// The pods of a node, ordered by namespace and name.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Returns the time since which the kubelet of a pod's node does not report. `None` while it reports, for
    /// a node that the watch has not shown, and for a pod that is on no node yet.
    pub(crate) fn node_silent_since(&self, pod: &Pod) -> Option<DateTime<Utc>> {
        let node = node_name(pod).and_then(|name| self.nodes.get(&ObjectKey::new("", name)));
        node.and_then(|node| silent_since(node))
    }

    /// Returns true when an address is that of a node.
    pub(crate) fn is_node_address(&self, address: IpAddr) -> bool {
        let addresses = |node: &Node| node.status.as_ref().and_then(|status| status.addresses.clone());
        self.nodes
            .iter()
            .flat_map(|(_, node)| addresses(node).unwrap_or_default())
            .any(|known| known.address.parse() == Ok(address))
    }
}

/// The node that a pod is on.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns true when a node's kubelet reports.
fn is_reachable(node: &Node) -> bool {
    silent_since(node).is_none()
}
