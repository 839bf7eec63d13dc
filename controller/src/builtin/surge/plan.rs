//! Plan of the surge for a released pod.

use chrono::{DateTime, Utc};
use evacuation_api::{
    RELEASED_ANNOTATION, REPLACEMENT_TIMEOUT_ANNOTATION, Timestamp, parse_replacement_timeout,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};

use super::{
    group::{Group, Progress},
    record::{Label, Record, Reference, Returning, annotation},
    situation::has_ended,
};
use crate::{
    builtin::{
        part::{Part, Renewal, after, sooner},
        patch::PodChange,
        reply::Reply,
    },
    cluster::controller_of,
};

/// Time that a replacement may take, in seconds, if the pod's annotation does not name it.
const TIMEOUT_SECONDS: i64 = 600;
/// Time before the end of the maximum total delay at which the responder refuses, in seconds. After that end
/// the pod is evicted.
const MARGIN_SECONDS: i64 = 5;
/// Time after which a refusing responder may be asked again, in seconds.
const RETRY_SECONDS: i64 = 300;
/// Time between two looks at a pod that is being given back, in seconds, although nothing changed.
const LOOK_AGAIN_SECONDS: i64 = 5;
/// Annotation by which a ReplicaSet chooses the pods that it deletes.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Highest deletion cost. A ReplicaSet deletes such a pod last.
const HIGHEST_COST: &str = "2147483647";

/// Plan of the surge.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SurgePlan {
    /// Reply to post.
    pub(super) reply: Option<Reply>,
    /// Change of the pod.
    pub(super) change: Option<PodChange>,
    /// Time of the next look if nothing changes before.
    pub(super) wake_at: Option<DateTime<Utc>>,
}

/// Takes the label from a pod. Its ReplicaSet releases it and makes a replacement.
pub(super) fn release(part: Part<'_>, label: Label, owner: &OwnerReference, now: DateTime<Utc>) -> PodChange {
    let key = label.key.clone();
    let record = Record {
        label,
        replica_set: Reference { name: owner.name.clone(), uid: owner.uid.clone() },
        evacuation: Reference { name: part.name().to_owned(), uid: part.uid().to_owned() },
        time: Timestamp(now),
        after_refusal: part.responder.answer_time.filter(|_| !part.is_awaited()),
        returning: None,
    };
    PodChange::default().label(&key, None).annotation(RELEASED_ANNOTATION, Some(&record.text()))
}

/// Waits for the replacement of a released pod. Without a ReplicaSet (`None`) the pod goes back to its owner.
pub(super) fn replace(
    part: Part<'_>,
    pod: &Pod,
    record: &Record,
    group: Option<&Group>,
    now: DateTime<Utc>,
) -> SurgePlan {
    let Some(group) = group else {
        return give_back(pod, record, None);
    };
    let (missing, due) = match group.progress(now) {
        Progress::Complete(message) => {
            return SurgePlan {
                reply: Some(Reply::Accept { reason: "ReplacementReady", message }),
                ..SurgePlan::default()
            };
        }
        Progress::Missing(missing, due) => (missing, due),
    };
    let limit = limit(part, pod, record);
    if limit <= now {
        let waited = (now - record.time.0).num_seconds();
        return SurgePlan {
            reply: Some(Reply::Refuse {
                reason: "ReplacementNotReady",
                message: format!("no replacement was ready within {waited} s: {missing}"),
                retry_after: Some(RETRY_SECONDS),
            }),
            ..SurgePlan::default()
        };
    }
    let mut step = hold(part, missing, now);
    step.wake_at = sooner(sooner(step.wake_at, due), Some(limit));
    step
}

/// Renews the delay.
pub(super) fn hold(part: Part<'_>, message: String, now: DateTime<Utc>) -> SurgePlan {
    match part.renewal(now) {
        Renewal::Due => SurgePlan {
            reply: Some(Reply::Delay { reason: "ReplacementPending", message }),
            ..SurgePlan::default()
        },
        Renewal::At(time) => SurgePlan { wake_at: Some(time), ..SurgePlan::default() },
        Renewal::Exhausted => SurgePlan::default(),
    }
}

/// Returns the time that the pod's annotation grants its replacement, in seconds.
///
/// # Errors
///
/// The note of an Event, when the annotation has another value.
pub(super) fn own_timeout(pod: &Pod) -> Result<Option<i64>, String> {
    let Some(text) = annotation(pod, REPLACEMENT_TIMEOUT_ANNOTATION) else { return Ok(None) };
    parse_replacement_timeout(text).map(Some).map_err(|error| {
        format!("the pod's annotation {REPLACEMENT_TIMEOUT_ANNOTATION}: {error}; {TIMEOUT_SECONDS} s count")
    })
}

/// Time at which the responder gives the replacement up: after the pod's own time, and before the end of the
/// maximum total delay. Another attempt after a refusal may take longer, because a refusal does not expire.
fn limit(part: Part<'_>, pod: &Pod, record: &Record) -> DateTime<Utc> {
    let timeout = own_timeout(pod).ok().flatten().unwrap_or(TIMEOUT_SECONDS);
    let own = after(record.time.0, timeout);
    let margin = MARGIN_SECONDS.min(part.responder.max_delay_seconds / 4);
    let end = after(part.longest_delay_ends(), -margin);
    if record.after_refusal.is_some() && end <= record.time.0 { own } else { own.min(end) }
}

/// Gives a pod back to its ReplicaSet, which adopts the pod and deletes another.
pub(super) fn give_back(pod: &Pod, record: &Record, group: Option<&Group>) -> SurgePlan {
    let change = PodChange::default().label(&record.label.key, Some(&record.label.value));
    if group.is_none() || has_ended(pod) {
        // No ReplicaSet adopts it. With its owner's name on it, the pod goes when the owner's other pods go.
        return changes(own_again(finish(change, pod, record), pod, record));
    }
    let returning = Record {
        returning: Some(Returning { deletion_cost: annotation(pod, DELETION_COST).map(str::to_owned) }),
        ..record.clone()
    };
    changes(
        change
            .annotation(RELEASED_ANNOTATION, Some(&returning.text()))
            .annotation(DELETION_COST, Some(HIGHEST_COST)),
    )
}

/// Ends giving a pod back, once its ReplicaSet has adopted it and has no pod too many. The caller checks such
/// an end against a fresh list of pods.
pub(super) fn end_return(pod: &Pod, record: &Record, group: Option<&Group>, now: DateTime<Utc>) -> SurgePlan {
    let Some(group) = group.filter(|_| !has_ended(pod)) else {
        return changes(own_again(finish(PodChange::default(), pod, record), pod, record));
    };
    let labels = pod.metadata.labels.as_ref();
    let labelled = labels.and_then(|all| all.get(&record.label.key)) == Some(&record.label.value);
    let owner = controller_of(pod).map(|owner| owner.uid.as_str());
    let taken = owner == Some(record.replica_set.uid.as_str());
    // Another actor has changed the label.
    let elsewhere = !labelled || (owner.is_some() && !taken);
    if elsewhere || (taken && group.is_settled()) {
        return changes(finish(PodChange::default(), pod, record));
    }
    SurgePlan { wake_at: Some(after(now, LOOK_AGAIN_SECONDS)), ..SurgePlan::default() }
}

fn changes(change: PodChange) -> SurgePlan {
    SurgePlan { change: Some(change), ..SurgePlan::default() }
}

/// Removes the record, and restores the pod's own deletion cost.
fn finish(change: PodChange, pod: &Pod, record: &Record) -> PodChange {
    let change = change.annotation(RELEASED_ANNOTATION, None);
    match &record.returning {
        Some(returning) if annotation(pod, DELETION_COST) == Some(HIGHEST_COST) => {
            change.annotation(DELETION_COST, returning.deletion_cost.as_deref())
        }
        _ => change,
    }
}

/// Makes the ReplicaSet of the record the owner again, unless the pod has another owner.
fn own_again(change: PodChange, pod: &Pod, record: &Record) -> PodChange {
    if controller_of(pod).is_some() {
        return change;
    }
    let owner = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: record.replica_set.name.clone(),
        uid: record.replica_set.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    PodChange { owner_references: vec![owner], ..change }
}

#[cfg(test)]
mod tests;
