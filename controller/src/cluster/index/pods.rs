//! Pods in the index.

use std::{net::IpAddr, sync::Arc};

use evacuation_api::Evacuation;
use evacuation_protocol::project_pod;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};

use super::{Change, Index, Indexed, Table, evacuations::pod_key, is_finished, nodes::node_name};
use crate::cluster::ObjectKey;

/// Knowledge of an Evacuation's target.
#[derive(Clone, Debug)]
pub(crate) enum TargetPod {
    /// It was seen, and not seen to go.
    Live(Arc<Pod>),
    /// It was seen to go.
    Gone,
    /// It is not known: gone before it was seen, or the watch of pods lags behind. A live read decides.
    Unknown,
}

impl Indexed for Pod {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.pods
    }

    fn project(&mut self) {
        project_pod(self);
    }

    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey> {
        index.move_pod(change);
        index.regroup(change);
        let old = change.old.as_ref().and_then(|pod| pod.metadata.uid.clone());
        let new = change.new.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
        // A live read decides on one that is only missing from a list: what is gone ends its Evacuation.
        let seen_to_go = |uid: &String| Some(uid.as_str()) != new && !change.missing;
        if let Some(old) = old.filter(seen_to_go) {
            index.note_gone(&change.key, &old);
        }
        let mut touched = index.active_of(&change.key);
        touched.extend(index.active_around(change));
        touched
    }
}

impl Index {
    /// The pod of that key.
    pub(crate) fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.pods.get(key).cloned()
    }

    /// Every pod.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Pod>)> {
        self.pods.iter()
    }

    /// The pods of a namespace.
    pub(crate) fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.namespace(namespace).map(|(_, pod)| pod)
    }

    /// Returns true when a namespace has a pod of that UID at that address, and the address is the pod's own.
    /// A pod with hostNetwork has the address of its node.
    pub(crate) fn has_pod(&self, namespace: &str, uid: &str, address: IpAddr) -> bool {
        let own_network = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.host_network) != Some(true);
        let of_uid = self.pods_in(namespace).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        of_uid.filter(|pod| own_network(pod)).any(|pod| {
            let status = pod.status.as_ref();
            let all = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
            let addresses = all.map(|ip| &ip.ip).chain(status.and_then(|status| status.pod_ip.as_ref()));
            addresses.filter_map(|text| text.parse().ok()).any(|known: IpAddr| known == address)
        })
    }

    /// Knowledge of an Evacuation's target.
    pub(crate) fn target(&self, evacuation: &Evacuation) -> TargetPod {
        let uid = evacuation.spec.target.pod.uid.as_deref();
        match self.pods.get(&pod_key(evacuation)) {
            Some(pod) if pod.metadata.uid.as_deref() == uid => TargetPod::Live(Arc::clone(pod)),
            _ if uid.is_some_and(|uid| self.gone.contains(uid)) => TargetPod::Gone,
            _ => TargetPod::Unknown,
        }
    }

    /// Keeps up the pods of each node.
    fn move_pod(&mut self, change: &Change<Pod>) {
        let (old, new) =
            (change.old.as_deref().and_then(node_name), change.new.as_deref().and_then(node_name));
        if old == new {
            return;
        }
        if let Some(node) = old
            && let Some(pods) = self.by_node.get_mut(node)
        {
            pods.remove(&change.key);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
        if let Some(node) = new {
            self.by_node.entry(node.to_owned()).or_default().insert(change.key.clone());
        }
    }

    /// Takes in that a live read found a pod of that UID gone.
    pub(crate) fn note_gone(&mut self, pod: &ObjectKey, uid: &str) {
        let targeted = self.by_pod.get(pod).into_iter().flatten().filter_map(|key| self.evacuations.get(key));
        if targeted.filter(|e| !is_finished(e)).any(|e| e.spec.target.pod.uid.as_deref() == Some(uid)) {
            self.gone.insert(uid.to_owned());
        }
    }
}

/// The owner that manages a pod.
pub(crate) fn controller_of(pod: &Pod) -> Option<&OwnerReference> {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_stands_at_its_own_address_and_one_with_host_network_at_none() {
        let mut index = Index::default();
        for (uid, address, host_network) in [("own", "10.0.0.1", false), ("host", "192.168.0.1", true)] {
            let pod = json!({
                "metadata": {"namespace": "ns", "name": uid, "uid": uid, "resourceVersion": "1"},
                "spec": {"containers": [], "hostNetwork": host_network},
                "status": {"podIP": address},
            });
            let mut pod: Pod = serde_json::from_value(pod).unwrap();
            pod.project();
            index.apply(pod);
        }
        let stands = |uid, address: &str| index.has_pod("ns", uid, address.parse().unwrap());
        assert!(stands("own", "10.0.0.1"));
        assert!(!stands("own", "10.0.0.2"));
        assert!(!stands("host", "192.168.0.1"), "that is its node's");
        assert!(!index.has_pod("other", "own", "10.0.0.1".parse().unwrap()));
    }
}
