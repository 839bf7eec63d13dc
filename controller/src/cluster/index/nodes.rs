//! Nodes in the index.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

/// The taint of a node whose kubelet does not report: it is set when the node's Ready condition is Unknown.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

impl Indexed for Node {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
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
    /// Returns true when the kubelet of a pod's node reports. A node that the watch has not shown counts as
    /// reachable, and so does that of a pod that is on none yet.
    pub(crate) fn node_reachable(&self, pod: &Pod) -> bool {
        let node = node_name(pod).and_then(|name| self.nodes.get(&ObjectKey::new("", name)));
        node.is_none_or(|node| is_reachable(node))
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
pub(crate) fn is_reachable(node: &Node) -> bool {
    let tainted = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_ref())
        .is_some_and(|taints| taints.iter().any(|taint| taint.key == UNREACHABLE_TAINT));
    let unknown = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|conditions| conditions.iter().any(|c| c.type_ == "Ready" && c.status == "Unknown"));
    !tainted && !unknown
}
