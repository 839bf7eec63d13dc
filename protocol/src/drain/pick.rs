//! Selection of the pods of a node that a drain evacuates.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{DaemonSetRule, EmptyDirRule, NodeEvacuationSpec, UnmanagedRule, is_dns_subdomain};
use k8s_openapi::api::core::v1::Pod;

use super::{DrainRefusal, DrainSkip, DrainWarning};
use crate::{
    pod::{LivePod, PodPhase, daemon_set, is_managed, is_mirror, is_own_daemon_set},
    time::after,
};

/// Filters of a drain: the pods that it may evacuate. The defaults are those of `kubectl drain`.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainFilters {
    /// Leave pods of DaemonSets alone (`--ignore-daemonsets`), refuse to drain, or evacuate them.
    pub daemon_sets: DaemonSetRule,
    /// Evacuate pods with emptyDir volumes, whose data is lost (`--delete-emptydir-data`).
    pub delete_empty_dir_data: bool,
    /// Evacuate pods that no controller replaces (`--force`).
    pub force: bool,
    /// Leave pods alone that have been terminating for longer, in seconds (`--skip-wait-for-delete-timeout`);
    /// 0 for never.
    pub skip_wait_for_delete_seconds: i64,
    /// Missing DaemonSets that pods name as their controller, as `NAMESPACE/NAME`. With `force` their pods
    /// are evacuated.
    pub missing_daemon_sets: BTreeSet<String>,
}

impl Default for DrainFilters {
    fn default() -> Self {
        Self {
            daemon_sets: DaemonSetRule::Refuse,
            delete_empty_dir_data: false,
            force: false,
            skip_wait_for_delete_seconds: 0,
            missing_daemon_sets: BTreeSet::new(),
        }
    }
}

impl DrainFilters {
    /// Returns the filters of a NodeEvacuation. DaemonSets that do not exist are named in `missing`.
    pub(super) fn of(spec: &NodeEvacuationSpec, missing: &BTreeSet<String>) -> Self {
        let rules = &spec.pods;
        Self {
            daemon_sets: rules.daemon_sets.unwrap_or_default(),
            delete_empty_dir_data: rules.empty_dir_data.unwrap_or_default() == EmptyDirRule::Delete,
            force: rules.unmanaged.unwrap_or_default() == UnmanagedRule::Evict,
            skip_wait_for_delete_seconds: rules.skip_terminating_seconds.unwrap_or_default(),
            missing_daemon_sets: missing.clone(),
        }
    }

    /// Returns true for a pod of a DaemonSet that is not missing. Those of others than Kubernetes count as
    /// there.
    pub(super) fn has_living_daemon_set(&self, pod: &Pod) -> bool {
        let is_there = || daemon_set_key(pod).is_some_and(|key| !self.missing_daemon_sets.contains(&key));
        daemon_set(pod).is_some_and(|owner| !is_own_daemon_set(owner) || is_there())
    }
}

/// Returns the DaemonSet of Kubernetes' own that a pod names as its controller, as `NAMESPACE/NAME`. It need
/// not exist. `None` also for a name that no DaemonSet can have: a pod's creator chooses it, and the API does
/// not check it.
pub fn daemon_set_key(pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let owner = daemon_set(pod).filter(|owner| is_own_daemon_set(owner) && is_dns_subdomain(&owner.name))?;
    Some(format!("{namespace}/{}", owner.name))
}

/// The pods of a node, sorted by what a drain does with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked<'a> {
    /// The pods to evacuate, those of lower priority first, then by namespace and name.
    pub evacuate: Vec<&'a Pod>,
    /// Losses that the evacuation of pods in `evacuate` causes.
    pub warnings: Vec<(&'a Pod, DrainWarning)>,
    /// The pods to leave alone.
    pub skipped: Vec<(&'a Pod, DrainSkip)>,
    /// The pods that have ended, in the order of `evacuate`. They are deleted without being asked.
    pub completed: Vec<&'a Pod>,
    /// The pods for which the drain must not begin at all.
    pub refused: Vec<(&'a Pod, DrainRefusal)>,
}

/// Sorts a node's pods by what a drain does with them. Each pod that is not evacuated has every reason for
/// it.
///
/// The meanings are those of `kubectl drain` (`k8s.io/kubectl/pkg/drain/filters.go`). A pod that has ended
/// passes every filter except those for mirror pods and for pods that have been terminating for long.
pub fn pick<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    filters: &DrainFilters,
    now: DateTime<Utc>,
) -> Picked<'a> {
    let mut picked = Picked::default();
    for pod in pods {
        match judge(pod, filters, now) {
            Verdict::Complete => picked.completed.push(pod),
            Verdict::Skip(why) => picked.skipped.push((pod, why)),
            Verdict::Refuse(reasons) => picked.refused.extend(reasons.into_iter().map(|why| (pod, why))),
            Verdict::Evacuate(losses) => {
                picked.evacuate.push(pod);
                picked.warnings.extend(losses.into_iter().map(|why| (pod, why)));
            }
        }
    }
    picked.evacuate.sort_by_key(|pod| order(pod));
    picked.completed.sort_by_key(|pod| order(pod));
    picked
}

enum Verdict {
    Complete,
    Skip(DrainSkip),
    Refuse(Vec<DrainRefusal>),
    Evacuate(Vec<DrainWarning>),
}

/// Lower priorities first, as the kubelet does at a node's shutdown: what others rely on goes last.
fn order(pod: &Pod) -> (i32, Option<&str>, Option<&str>) {
    let priority = pod.spec.as_ref().and_then(|s| s.priority).unwrap_or_default();
    (priority, pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref())
}

fn judge(pod: &Pod, filters: &DrainFilters, now: DateTime<Utc>) -> Verdict {
    if is_mirror(pod) {
        return Verdict::Skip(DrainSkip::Mirror);
    }
    let live = LivePod::of(pod);
    let patience = filters.skip_wait_for_delete_seconds;
    if live.terminating_until.is_some_and(|until| patience > 0 && now > after(until, patience)) {
        return Verdict::Skip(DrainSkip::Terminating);
    }
    if live.phase == PodPhase::Terminal {
        return Verdict::Complete;
    }

    let (mut refusals, mut losses) = (Vec::new(), Vec::new());
    let mut weigh = |allowed: bool, refusal: DrainRefusal, loss: DrainWarning| {
        if allowed {
            losses.push(loss);
        } else {
            refusals.push(refusal);
        }
    };
    if daemon_set(pod).is_some() {
        let rule = filters.has_living_daemon_set(pod).then_some(filters.daemon_sets);
        match rule {
            None => weigh(filters.force, DrainRefusal::MissingDaemonSet, DrainWarning::MissingDaemonSet),
            Some(DaemonSetRule::Skip) => return Verdict::Skip(DrainSkip::DaemonSet),
            Some(DaemonSetRule::Refuse) => return Verdict::Refuse(vec![DrainRefusal::DaemonSet]),
            Some(DaemonSetRule::Last) => {}
        }
    }
    if has_empty_dir(pod) {
        weigh(filters.delete_empty_dir_data, DrainRefusal::LocalStorage, DrainWarning::LocalStorage);
    }
    if !is_managed(pod) {
        weigh(filters.force, DrainRefusal::Unmanaged, DrainWarning::Unmanaged);
    }
    if refusals.is_empty() { Verdict::Evacuate(losses) } else { Verdict::Refuse(refusals) }
}

fn has_empty_dir(pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref());
    volumes.is_some_and(|all| all.iter().any(|volume| volume.empty_dir.is_some()))
}

#[cfg(test)]
mod tests;
