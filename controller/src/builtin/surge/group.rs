//! A ReplicaSet and its pods: its progress, and what is missing.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use evacuation_api::from_condition_time;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ContainerStatus, Pod, PodCondition},
};
use kube::ResourceExt;

use super::record::Record;
use crate::{builtin::part::after, cluster::controller_of};

/// A ReplicaSet and its pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    name: String,
    replicas: usize,
    min_ready_seconds: i64,
    /// Reason for which it cannot make pods, if it cannot.
    failure: Option<String>,
    /// Its pods that stay: neither terminating nor ended nor released.
    pods: Vec<Arc<Pod>>,
}

/// Progress of a ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has as many available pods as it wants. The text is for people.
    Complete(String),
    /// It has fewer. The text names what is missing. At the time, if any, the state changes without an event.
    Missing(String, Option<DateTime<Utc>>),
}

impl Group {
    /// Returns a ReplicaSet with those of `pods` that belong to it. `None` while it is being deleted, because
    /// it makes and adopts no pods then.
    pub(super) fn of(replica_set: &ReplicaSet, pods: impl IntoIterator<Item = Arc<Pod>>) -> Option<Self> {
        if replica_set.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let uid = replica_set.metadata.uid.as_deref().unwrap_or_default();
        let spec = &replica_set.spec;
        let status = replica_set.status.clone().unwrap_or_default();
        let failed = status
            .conditions
            .into_iter()
            .flatten()
            .find(|condition| is_failure(condition.type_.as_deref(), condition.status.as_deref()));
        Some(Self {
            name: replica_set.name_any(),
            replicas: usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default().into(),
            failure: failed.map(|condition| condition.message.or(condition.reason).unwrap_or_default()),
            pods: pods.into_iter().filter(|pod| belongs(pod, uid)).collect(),
        })
    }

    /// Returns true if the ReplicaSet wants no pods at all.
    pub(super) fn wants_none(&self) -> bool {
        self.replicas == 0
    }

    /// Returns true if the ReplicaSet has no pod too many.
    pub(super) fn is_settled(&self) -> bool {
        self.pods.len() <= self.replicas
    }

    /// Returns the progress of the ReplicaSet.
    pub(super) fn progress(&self, now: DateTime<Utc>) -> Progress {
        let (mut available, mut next, mut unready) = (0, None, None);
        for pod in &self.pods {
            match ready_since(pod) {
                Some(since) => {
                    let due = after(since, self.min_ready_seconds);
                    if self.min_ready_seconds == 0 || due <= now {
                        available += 1;
                    } else {
                        next = crate::builtin::part::sooner(next, Some(due));
                    }
                }
                None => {
                    unready.get_or_insert(pod);
                }
            }
        }
        let noun = if self.replicas == 1 { "pod" } else { "pods" };
        let has = format!(
            "ReplicaSet {} has {available} of {} {noun} available without this one",
            self.name, self.replicas
        );
        if available >= self.replicas {
            return Progress::Complete(has);
        }
        let missing = match (unready, &self.failure) {
            (Some(pod), _) => format!("pod {}: {}", pod.name_any(), reason(pod)),
            (None, Some(failure)) if self.pods.len() < self.replicas => failure.clone(),
            (None, _) if self.pods.len() < self.replicas => "the replacement is not made yet".to_owned(),
            (None, _) => format!("the replacement is ready for less than {} s", self.min_ready_seconds),
        };
        Progress::Missing(format!("{has}; {missing}"), next)
    }
}

/// Returns true for the condition of a ReplicaSet that cannot make pods.
pub(super) fn is_failure(kind: Option<&str>, status: Option<&str>) -> bool {
    kind == Some("ReplicaFailure") && status == Some("True")
}

fn belongs(pod: &Pod, uid: &str) -> bool {
    let released = Record::of(pod).is_some_and(|record| record.returning.is_none());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    controller_of(pod).is_some_and(|owner| owner.uid == uid)
        && pod.metadata.deletion_timestamp.is_none()
        && !released
        && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn ready_since(pod: &Pod) -> Option<DateTime<Utc>> {
    let ready = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(DateTime::<Utc>::MIN_UTC, from_condition_time))
}

/// Reason for which a pod is not ready, as far as its status tells.
fn reason(pod: &Pod) -> String {
    let scheduled = condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    if let Some(unscheduled) = scheduled {
        return said(unscheduled.reason.as_deref(), unscheduled.message.as_deref());
    }
    let status = pod.status.clone().unwrap_or_default();
    let containers = [status.init_container_statuses, status.container_statuses];
    let waiting = containers.into_iter().flatten().flatten().find_map(waiting);
    waiting.unwrap_or_else(|| "it is not ready".to_owned())
}

fn waiting(container: ContainerStatus) -> Option<String> {
    let waiting = container.state?.waiting?;
    Some(said(waiting.reason.as_deref(), waiting.message.as_deref()))
}

fn said(reason: Option<&str>, message: Option<&str>) -> String {
    let parts: Vec<&str> = [reason, message].into_iter().flatten().collect();
    if parts.is_empty() { "it is not ready".to_owned() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin::testing::{at, merge};

    fn replica_set(patch: &Value) -> ReplicaSet {
        let mut set =
            json!({"metadata": {"name": "web-1", "uid": "r1"}, "spec": {"replicas": 1, "selector": {}}});
        merge(&mut set, patch);
        serde_json::from_value(set).unwrap()
    }

    /// A pod of the ReplicaSet that is ready since so many seconds, with what `patch` says instead.
    fn pod(ready_since: i64, patch: &Value) -> Arc<Pod> {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r1", "controller": true});
        let mut pod = json!({
            "metadata": {"name": "web-1-x", "ownerReferences": [owner]},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": at(ready_since).to_rfc3339()}
            ]},
        });
        merge(&mut pod, patch);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn word(set: &ReplicaSet, pods: Vec<Arc<Pod>>) -> String {
        match Group::of(set, pods).unwrap().progress(at(100)) {
            Progress::Complete(_) => "complete".to_owned(),
            Progress::Missing(text, next) => {
                let missing = text.split_once("; ").unwrap().1;
                let next =
                    next.map_or(String::new(), |next| format!(", next at {}", (next - at(0)).num_seconds()));
                format!("{missing}{next}")
            }
        }
    }

    #[test]
    fn a_replica_set_is_complete_when_all_its_replicas_are_available_and_else_says_what_is_missing() {
        let (one, two) = (replica_set(&json!({})), replica_set(&json!({"spec": {"replicas": 2}})));
        let slow = replica_set(&json!({"spec": {"minReadySeconds": 30}}));
        let none = replica_set(&json!({"spec": {"replicas": 0}}));
        let failing = replica_set(&json!({"status": {"replicas": 0, "conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}
        ]}}));
        let ready = || pod(0, &json!({}));
        let status = |conditions: &Value| pod(0, &json!({"status": {"conditions": conditions}}));
        let unscheduled = || {
            status(
                &json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]),
            )
        };
        let pulling = pod(
            0,
            &json!({"status": {"conditions": [], "containerStatuses": [{"name": "c", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
        );
        let terminating = || pod(0, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let released = json!({"label": {"key": "k", "value": "v"}, "replicaSet": {"name": "web-1", "uid": "r1"},
            "evacuation": {"name": "e", "uid": "e1"}, "time": "2026-01-01T00:00:00Z"});
        let mut returning = released.clone();
        returning["returning"] = json!({});
        let marked = |record: &Value| {
            pod(
                0,
                &json!({"metadata": {"annotations": {evacuation_api::RELEASED_ANNOTATION: record.to_string()}}}),
            )
        };
        let not_made = "the replacement is not made yet";
        let table = vec![
            (&one, vec![ready()], "complete".to_owned()),
            (&none, vec![], "complete".to_owned()),
            (&two, vec![ready()], not_made.to_owned()),
            (&two, vec![ready(), ready()], "complete".to_owned()),
            (&one, vec![terminating()], not_made.to_owned()),
            (&two, vec![ready(), terminating()], not_made.to_owned()),
            (&one, vec![marked(&released)], not_made.to_owned()),
            (&one, vec![marked(&returning)], "complete".to_owned()),
            (&one, vec![pod(0, &json!({"status": {"phase": "Failed"}}))], not_made.to_owned()),
            (&one, vec![pod(0, &json!({"metadata": {"ownerReferences": null}}))], not_made.to_owned()),
            (&one, vec![unscheduled()], "pod web-1-x: Unschedulable: 0/3 nodes".to_owned()),
            (&one, vec![pulling], "pod web-1-x: ImagePullBackOff".to_owned()),
            (&two, vec![ready(), status(&json!([]))], "pod web-1-x: it is not ready".to_owned()),
            (&failing, vec![], "exceeded quota: q".to_owned()),
            (
                &slow,
                vec![pod(80, &json!({}))],
                "the replacement is ready for less than 30 s, next at 110".to_owned(),
            ),
            (&slow, vec![pod(70, &json!({}))], "complete".to_owned()),
        ];
        for (set, pods, expected) in table {
            let shown = format!("{pods:?}");
            assert_eq!(word(set, pods), expected, "{shown}");
        }
    }

    #[test]
    fn a_replica_set_that_is_being_deleted_counts_as_gone() {
        let set = replica_set(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(Group::of(&set, []).is_none());
    }
}
