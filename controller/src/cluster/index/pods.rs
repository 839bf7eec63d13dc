//! Pods in the index.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use evacuation_api::Evacuation;
use evacuation_protocol::{LABELS_CUT, keep_pin};
use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, EmptyDirVolumeSource, Pod, PodSpec, PodStatus, Volume},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};

use super::{
    Change, Index, Indexed, Table,
    evacuations::pod_key,
    is_finished,
    metadata::{self, shorten},
    nodes::node_name,
};
use crate::cluster::ObjectKey;

/// Maximum number of labels that are kept of a pod, besides those of the project's own domain. Selectors see
/// no others. A pod that has more gets the label [`LABELS_CUT`].
const LABELS: usize = 64;
/// Maximum number of conditions that are kept of a pod.
const CONDITIONS: usize = 32;
/// Maximum number of statuses of containers that are kept of a pod, and of its init containers.
const STATUSES: usize = 16;

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

fn label_count(pod: &Pod) -> usize {
    pod.metadata.labels.as_ref().map_or(0, BTreeMap::len)
}

impl Indexed for Pod {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.pods
    }

    /// A decoded container, status or volume takes a kilobyte however short its text is. So no container is
    /// kept, one volume, and a bounded number of statuses.
    fn project(&mut self) {
        let known = label_count(self);
        metadata::project(&mut self.metadata, LABELS);
        if label_count(self) < known {
            let labels = self.metadata.labels.get_or_insert_default();
            labels.insert(LABELS_CUT.to_owned(), String::new());
        }
        keep_pin(self);
        self.spec = self.spec.take().map(spec_of);
        self.status = self.status.take().map(status_of);
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

/// The part of a spec that is kept: no container, and one volume.
fn spec_of(spec: PodSpec) -> PodSpec {
    PodSpec {
        affinity: spec.affinity,
        eviction_responders: spec.eviction_responders,
        host_network: spec.host_network,
        node_name: spec.node_name,
        priority: spec.priority,
        restart_policy: spec.restart_policy,
        scheduling_group: spec.scheduling_group,
        service_account_name: spec.service_account_name,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        tolerations: spec.tolerations,
        volumes: empty_dir(spec.volumes),
        ..PodSpec::default()
    }
}

/// The part of a status that is kept.
fn status_of(status: PodStatus) -> PodStatus {
    let mut conditions = status.conditions;
    if let Some(conditions) = &mut conditions {
        shorten(conditions, CONDITIONS);
    }
    PodStatus {
        conditions,
        container_statuses: status.container_statuses.map(telling),
        init_container_statuses: status.init_container_statuses.map(telling),
        phase: status.phase,
        pod_ip: status.pod_ip,
        pod_ips: status.pod_ips,
        reason: status.reason,
        ..PodStatus::default()
    }
}

/// The owner that manages a pod.
pub(crate) fn controller_of(pod: &Pod) -> Option<&OwnerReference> {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.controller == Some(true))
}

/// The statuses that say something of their pod, at most [`STATUSES`]: those of containers that wait or have
/// restarted, and the first one that runs.
fn telling(statuses: Vec<ContainerStatus>) -> Vec<ContainerStatus> {
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let waits = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let running = statuses.iter().position(runs);
    let mut others = 0;
    let mut kept = Vec::new();
    for (place, status) in statuses.into_iter().enumerate() {
        let is_first_running = Some(place) == running;
        let tells = waits(&status) || status.restart_count > 0;
        if is_first_running || (tells && others + 1 < STATUSES) {
            others += usize::from(!is_first_running);
            kept.push(slim(status));
        }
    }
    kept.shrink_to_fit();
    kept
}

/// A status without what nobody reads, such as the names of images and the words of a container that ended,
/// which the container chooses.
fn slim(status: ContainerStatus) -> ContainerStatus {
    let worded = |mut state: ContainerState| {
        if let Some(ended) = &mut state.terminated {
            (ended.message, ended.container_id) = (None, None);
        }
        state
    };
    ContainerStatus {
        name: status.name,
        ready: status.ready,
        restart_count: status.restart_count,
        state: status.state.map(worded),
        last_state: status.last_state.map(worded),
        ..ContainerStatus::default()
    }
}

/// One emptyDir volume, if there is any: a drain asks whether its data may be lost.
fn empty_dir(volumes: Option<Vec<Volume>>) -> Option<Vec<Volume>> {
    let volume = volumes?.into_iter().find(|volume| volume.empty_dir.is_some())?;
    let empty_dir = Some(EmptyDirVolumeSource::default());
    Some(vec![Volume { name: volume.name, empty_dir, ..Volume::default() }])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod of so many containers, of which those named run.
    fn crowd(count: usize, running: &[usize]) -> Pod {
        let containers: Vec<_> = (0..count).map(|n| json!({"name": format!("c{n}"), "image": "i"})).collect();
        let volumes: Vec<_> = (0..count).map(|n| json!({"name": format!("v{n}"), "emptyDir": {}})).collect();
        let statuses: Vec<_> = (0..count)
            .map(|n| {
                let state = if running.contains(&n) {
                    json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
                } else {
                    json!({"waiting": {"reason": "CrashLoopBackOff"}})
                };
                let last = json!({"terminated": {"exitCode": 3, "message": "x".repeat(4096)}});
                json!({"name": format!("c{n}"), "image": "i", "imageID": "i", "ready": false, "restartCount": 5,
                    "state": state, "lastState": last, "resources": {"limits": {"cpu": "1"}}})
            })
            .collect();
        let annotations = json!({"acme.io/big": "x".repeat(200_000)});
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "p", "annotations": annotations},
            "spec": {"containers": containers, "volumes": volumes},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_kept_of_a_pod_does_not_grow_with_its_containers() {
        let size = |count| {
            let mut pod = crowd(count, &[]);
            pod.project();
            let status = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
            assert!(status.len() < STATUSES && status.capacity() < 2 * STATUSES);
            assert_eq!(status[0].last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
            let spec = pod.spec.as_ref().unwrap();
            assert_eq!((spec.containers.len(), spec.volumes.as_ref().unwrap().len()), (0, 1));
            serde_json::to_string(&pod).unwrap().len()
        };
        assert_eq!(size(100), size(2000));
        assert!(size(2000) < 8192, "{}", size(2000));
    }

    #[test]
    fn a_pod_of_many_containers_runs_while_one_of_them_does() {
        for (running, runs) in [(vec![999], true), (vec![0, 1, 999], true), (Vec::new(), false)] {
            let mut pod = crowd(1000, &running);
            pod.project();
            assert_eq!(evacuation_protocol::LivePod::of(&pod).running_container, runs, "{running:?}");
        }
    }

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
