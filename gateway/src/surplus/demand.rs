//! The number of pods that an owner wants, and the pods that it would keep. Pure.
//!
//! The object that stands for the wish is that of `pkg/controller/disruption/disruption.go`, kubernetes
//! v1.37.1: a Deployment stands for its ReplicaSets. Other owners stand for themselves.

use std::ops::Range;

use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        batch::v1::Job,
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::rule::{Candidate, Workload};
use crate::owner::{controller_of, ordinal, ordinals};

/// Conditions of a Job that has ended, or whose remaining pods are about to be deleted.
const JOB_ENDS: [&str; 4] = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];

/// The wish of a top owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// Number of pods that it wants.
    pub(super) wanted: usize,
    /// Selector of its pods.
    pub(super) selector: LabelSelector,
    /// The controllers of its pods.
    pub(super) controllers: Vec<Controller>,
}

/// A controller that owns pods of the top owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) uid: String,
    pub(super) keeps: Keeps,
}

/// The pods that a controller keeps when it deletes the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// That many, and ready ones before others.
    Number(usize),
    /// Those with these ordinals at the ends of their names.
    Ordinals(Range<i32>),
}

impl Demand {
    /// Returns the wish of an owner that is its only controller, and keeps ready pods before others.
    pub(super) fn of_number(uid: &str, wanted: usize, selector: LabelSelector) -> Self {
        let controller = Controller { uid: uid.to_owned(), keeps: Keeps::Number(wanted) };
        Self { wanted, selector, controllers: vec![controller] }
    }

    /// Returns the wish of a StatefulSet.
    pub(super) fn of_stateful_set(uid: &str, set: &StatefulSet) -> Self {
        let controller = Controller { uid: uid.to_owned(), keeps: Keeps::Ordinals(ordinals(set)) };
        let wanted = replicas(set.spec.replicas);
        Self { wanted, selector: set.spec.selector.clone(), controllers: vec![controller] }
    }

    /// Returns the wish of a Deployment that wants so many pods, with those of these ReplicaSets that are its
    /// own.
    pub(super) fn of_deployment(
        uid: &str,
        wanted: usize,
        selector: LabelSelector,
        sets: &[ReplicaSet],
    ) -> Self {
        let own = sets.iter().filter(|set| controller_of(&set.metadata).is_some_and(|top| top.uid == uid));
        let controller = |set: &ReplicaSet| {
            let keeps = Keeps::Number(replicas(set.spec.replicas));
            Some(Controller { uid: set.metadata.uid.clone()?, keeps })
        };
        Self { wanted, selector, controllers: own.filter_map(controller).collect() }
    }

    /// Returns what the rule compares, for a pod of that UID whose budget needs so many healthy pods. `None`
    /// when it is none of these pods, or leaves already.
    pub(super) fn compare(&self, pods: &[Pod], needed: usize, uid: &str) -> Option<(Workload, Candidate)> {
        let mut workload = Workload { wanted: self.wanted, needed, ..Workload::default() };
        let mut candidate = None;
        for controller in &self.controllers {
            let own: Vec<_> = pods.iter().filter(|pod| is_of(pod, controller) && is_live(pod)).collect();
            let ready = own.iter().filter(|pod| LivePod::of(pod).ready);
            let staying = match &controller.keeps {
                Keeps::Number(number) => ready.clone().count().min(*number),
                Keeps::Ordinals(ordinals) => ready.clone().filter(|pod| has_ordinal(pod, ordinals)).count(),
            };
            workload.pods += own.len();
            workload.ready += ready.count();
            workload.staying += staying;
            if let Some(pod) = own.iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid)) {
                let excess = match &controller.keeps {
                    Keeps::Number(number) => own.len() > *number,
                    Keeps::Ordinals(ordinals) => !has_ordinal(pod, ordinals),
                };
                candidate = Some(Candidate { ready: LivePod::of(pod).ready, excess });
            }
        }
        candidate.map(|candidate| (workload, candidate))
    }
}

/// Returns a number of replicas, which is 1 by default.
pub(super) fn replicas(number: Option<i32>) -> usize {
    usize::try_from(number.unwrap_or(1)).unwrap_or_default()
}

/// Returns the number of pods that a Job wants to run: none when it has ended, or is suspended.
pub(super) fn wanted_of_job(job: &Job) -> usize {
    let Some(spec) = &job.spec else { return replicas(None) };
    let status = job.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ends = conditions.iter().any(|c| c.status == "True" && JOB_ENDS.contains(&c.type_.as_str()));
    if ends || spec.suspend == Some(true) {
        return 0;
    }
    let succeeded = status.and_then(|status| status.succeeded).unwrap_or_default();
    let missing = spec.completions.map(|completions| replicas(Some(completions.saturating_sub(succeeded))));
    missing.map_or(replicas(spec.parallelism), |missing| missing.min(replicas(spec.parallelism)))
}

fn is_of(pod: &Pod, controller: &Controller) -> bool {
    controller_of(&pod.metadata).is_some_and(|owner| owner.uid == controller.uid)
}

/// Returns true for a pod that neither terminates nor has ended.
fn is_live(pod: &Pod) -> bool {
    let live = LivePod::of(pod);
    live.terminating_until.is_none() && live.phase != PodPhase::Terminal
}

/// Returns true when the number at the end of the pod's name is one of these. A name without a number counts
/// as one: its controller does not delete the pod for its ordinal.
fn has_ordinal(pod: &Pod, ordinals: &Range<i32>) -> bool {
    ordinal(pod).is_none_or(|ordinal| ordinals.contains(&ordinal))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// Returns a pod of that controller, ready or not.
    fn pod(name: &str, owner: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({
            "metadata": {
                "name": name, "uid": name,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "K", "name": "k", "uid": owner, "controller": true}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn set(uid: &str, owner: &str, replicas: Option<i32>) -> ReplicaSet {
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner, "controller": true});
        read(json!({
            "metadata": {"uid": uid, "ownerReferences": [owner]},
            "spec": {"replicas": replicas, "selector": {}},
        }))
    }

    #[test]
    fn a_deployment_has_the_pods_of_all_its_replica_sets_that_do_not_leave() {
        let sets = [set("old", "web", Some(1)), set("new", "web", None), set("foreign", "other", Some(9))];
        let demand = Demand::of_deployment("web", 2, LabelSelector::default(), &sets);
        assert_eq!(demand.controllers.len(), 2, "{demand:?}");
        let mut leaving = pod("leaving", "old", true);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        let mut ended = pod("ended", "old", true);
        ended["status"]["phase"] = json!("Failed");
        let pods = [
            pod("old-1", "old", true),
            pod("old-2", "old", true),
            leaving,
            ended,
            pod("new-1", "new", false),
            pod("foreign-1", "foreign", true),
        ];
        let pods: Vec<Pod> = pods.into_iter().map(read).collect();
        let workload = Workload { wanted: 2, pods: 3, ready: 2, staying: 1, needed: 7 };
        for (name, candidate) in [
            ("old-1", Some(Candidate { ready: true, excess: true })),
            ("new-1", Some(Candidate { ready: false, excess: false })),
            ("leaving", None),
            ("ended", None),
            ("foreign-1", None),
            ("none", None),
        ] {
            assert_eq!(demand.compare(&pods, 7, name), candidate.map(|c| (workload, c)), "{name}");
        }
    }

    #[test]
    fn a_stateful_set_wants_the_pods_of_its_ordinals() {
        let object = json!({
            "spec": {"replicas": 2, "ordinals": {"start": 1}, "selector": {}, "template": {}, "serviceName": "db"},
        });
        let demand = Demand::of_stateful_set("db", &read(object));
        let all = [("db-0", true), ("db-1", false), ("db-2", true), ("db-3", true)];
        let pods: Vec<Pod> = all.iter().map(|(name, ready)| read(pod(name, "db", *ready))).collect();
        let workload = Workload { wanted: 2, pods: 4, ready: 3, staying: 1, needed: 7 };
        for (name, ready, excess) in
            [("db-0", true, true), ("db-1", false, false), ("db-2", true, false), ("db-3", true, true)]
        {
            assert_eq!(
                demand.compare(&pods, 7, name),
                Some((workload, Candidate { ready, excess })),
                "{name}"
            );
        }
    }

    #[test]
    fn a_job_wants_the_pods_that_it_still_needs() {
        let ended = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
        let none = || json!({});
        let table = [
            (json!({}), none(), 1),
            (json!({"parallelism": 4}), none(), 4),
            (json!({"parallelism": 4, "completions": 5}), none(), 4),
            (json!({"parallelism": 4, "completions": 5}), json!({"succeeded": 3}), 2),
            (json!({"parallelism": 4}), json!({"succeeded": 3}), 4),
            (json!({"parallelism": 0}), none(), 0),
            (json!({"parallelism": 4, "suspend": true}), none(), 0),
            (json!({"parallelism": 4, "suspend": false}), ended("Suspended"), 4),
            (json!({"parallelism": 4}), ended("FailureTarget"), 0),
            (json!({"parallelism": 4}), ended("Complete"), 0),
        ];
        for (mut spec, status, wanted) in table {
            spec["template"] = json!({});
            let job: Job = read(json!({"spec": spec.clone(), "status": status.clone()}));
            assert_eq!(wanted_of_job(&job), wanted, "{spec} {status}");
        }
    }
}
