//! The part of a pod that is kept.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, EmptyDirVolumeSource, Pod, PodSpec, PodStatus, Volume,
};

use super::metadata::{project_metadata, shorten};
use crate::{drain::LABELS_CUT, pod::keep_pin};

/// Maximum number of labels that are kept of a pod, besides those of the project's own domain. Selectors see
/// no others. A pod that has more gets the label [`LABELS_CUT`].
const LABELS: usize = 64;
/// Maximum number of conditions that are kept of a pod.
const CONDITIONS: usize = 32;
/// Maximum number of statuses of containers that are kept of a pod, and of its init containers.
const STATUSES: usize = 16;

/// Drops what no rule reads of a pod.
///
/// A decoded container, status or volume takes a kilobyte however short its text is. So no container is kept,
/// one volume, and a bounded number of statuses.
pub fn project_pod(pod: &mut Pod) {
    let known = label_count(pod);
    project_metadata(&mut pod.metadata, LABELS);
    if label_count(pod) < known {
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(LABELS_CUT.to_owned(), String::new());
    }
    keep_pin(pod);
    pod.spec = pod.spec.take().map(spec_of);
    pod.status = pod.status.take().map(status_of);
}

fn label_count(pod: &Pod) -> usize {
    pod.metadata.labels.as_ref().map_or(0, BTreeMap::len)
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
        let tolerations: Vec<_> = (0..count).map(|_| json!({"operator": "Exists"})).collect();
        let annotations = json!({"acme.io/big": "x".repeat(200_000)});
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "p", "annotations": annotations},
            "spec": {"containers": containers, "volumes": volumes, "tolerations": tolerations},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_kept_of_a_pod_does_not_grow_with_its_containers() {
        let size = |count| {
            let mut pod = crowd(count, &[]);
            project_pod(&mut pod);
            let status = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
            assert!(status.len() < STATUSES && status.capacity() < 2 * STATUSES);
            assert_eq!(status[0].last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
            let spec = pod.spec.as_ref().unwrap();
            assert_eq!((spec.containers.len(), spec.volumes.as_ref().unwrap().len()), (0, 1));
            assert_eq!(spec.tolerations.as_ref().unwrap().len(), 1);
            serde_json::to_string(&pod).unwrap().len()
        };
        assert_eq!(size(100), size(2000));
        assert!(size(2000) < 8192, "{}", size(2000));
    }

    #[test]
    fn a_pod_of_many_containers_runs_while_one_of_them_does() {
        for (running, runs) in [(vec![999], true), (vec![0, 1, 999], true), (Vec::new(), false)] {
            let mut pod = crowd(1000, &running);
            project_pod(&mut pod);
            assert_eq!(crate::LivePod::of(&pod).running_container, runs, "{running:?}");
        }
    }
}
