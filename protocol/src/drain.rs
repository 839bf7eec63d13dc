//! Which pods of a node a drain evacuates, with kubectl drain's meanings.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};

/// What a drain is told about pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainFilters {
    /// Leave pods of DaemonSets alone, instead of refusing to drain (`--ignore-daemonsets`).
    pub ignore_daemon_sets: bool,
    /// Evacuate pods with emptyDir volumes, whose data is lost (`--delete-emptydir-data`).
    pub delete_empty_dir_data: bool,
    /// Evacuate pods that no controller makes anew (`--force`).
    pub force: bool,
    /// Only pods that this selects (`--pod-selector`).
    pub pod_selector: Option<LabelSelector>,
    /// Leave pods alone that have been terminating for longer, in seconds (`--skip-wait-for-delete-timeout`); 0 for never.
    pub skip_wait_for_delete_seconds: i64,
    /// DaemonSets that pods name as their controller and that do not exist, as `NAMESPACE/NAME`: with `force` their pods are
    /// evacuated.
    pub missing_daemon_sets: BTreeSet<String>,
}

/// Why a drain leaves a pod alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrainSkip {
    /// It belongs to a DaemonSet.
    DaemonSet,
    /// It is the mirror of a static pod.
    Mirror,
    /// It has ended.
    Finished,
    /// It has been terminating for long.
    Terminating,
    /// The pod selector does not select it.
    NotSelected,
}

/// Why a drain cannot go on because of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrainRefusal {
    /// It belongs to a DaemonSet, and DaemonSets are not ignored.
    DaemonSet,
    /// It belongs to a DaemonSet that does not exist, and `force` is not set.
    MissingDaemonSet,
    /// It has an emptyDir volume.
    LocalStorage,
    /// No controller makes it anew.
    Unmanaged,
}

/// What is lost when a pod is evacuated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrainWarning {
    /// It belongs to a DaemonSet that does not exist.
    MissingDaemonSet,
    /// The data of its emptyDir volumes.
    LocalStorage,
    /// The pod itself: no controller makes it anew.
    Unmanaged,
}

/// What a drain does with each pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked<'a> {
    /// The pods to evacuate, those of lower priority first, then by namespace and name.
    pub evacuate: Vec<&'a Pod>,
    /// What is lost with pods of `evacuate`.
    pub warnings: Vec<(&'a Pod, DrainWarning)>,
    /// The pods to leave alone.
    pub skipped: Vec<(&'a Pod, DrainSkip)>,
    /// The pods for which the drain must not begin at all.
    pub refused: Vec<(&'a Pod, DrainRefusal)>,
}

/// Which of a node's pods a drain evacuates. Every reason against a pod is given.
pub fn pick<'a>(pods: &'a [Pod], filters: &DrainFilters, now: DateTime<Utc>) -> Picked<'a> {
    let _ = (pods, filters, now);
    unimplemented!()
}
