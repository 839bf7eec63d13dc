//! Calls by name that reach the successor of the pod that their caller means.
//!
//! A StatefulSet's pod comes back under its name, and most callers name no UID. `kubectl drain` tries again
//! every 5 s until it learns that the pod is gone. It counts a 404 as success, so a 404 for a pod that runs
//! needs proof: the call must be a retry for the earlier pod, and no call for this one.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{ConditionType, Evacuation, Operation, from_condition_time};
use k8s_openapi::api::core::v1::Pod;

use super::{Facts, Reply, Sight, patience};
use crate::pod::node_name;

/// Time after the end of an Evacuation in which a call for the pod's successor counts as a retry. Callers
/// that name the pod and not its UID try again every 5 to 20 s.
const RETRY_SECONDS: i64 = 30;

/// Meaning of a call that names the successor of a pod that its caller asked to move.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// The earlier pod, which is gone.
    Earlier(Reply),
    /// Not known by the cached pod: the live one decides.
    Unclear,
}

/// Returns the meaning of a call that may be a retry for the earlier pod. `None` for a new question.
///
/// A retry comes within [`RETRY_SECONDS`] of the end. Its caller asked for the earlier pod before this one
/// was made, by a call of the same row, and that entry was there at the end and had not expired. No
/// Evacuation of this one has ended.
///
/// A successor on the same node, or on none, then proves that the earlier pod is gone. On another node it is
/// a new question, with one exception: an eviction, while the earlier pod's node takes no more pods and the
/// successor's node does. Only the first one is drained.
pub(super) fn meaning(facts: &Facts<'_>) -> Option<Meaning> {
    let before = facts.predecessor.filter(|_| facts.call.uid.is_none())?;
    let status = before.status.as_ref()?;
    status.true_condition(ConditionType::Evacuated)?;
    let is_recent = facts.now < status.finish_time?.0 + TimeDelta::seconds(RETRY_SECONDS);
    // Pods are made at whole seconds.
    let asked_before = patience::joined(facts.call, facts.row, before)
        .zip(created(facts.pod))
        .is_some_and(|(joined, made)| joined.timestamp() <= made.timestamp());
    if !is_recent || !asked_before || facts.last.is_some() {
        return None;
    }
    match facts.sight {
        Sight::Cached { .. } => Some(Meaning::Unclear),
        Sight::Live { drained_before } => {
            let drained_before = drained_before && facts.call.operation == Operation::Evict;
            let is_retry = other_node(facts.pod, before).is_none() || drained_before;
            is_retry.then(|| Meaning::Earlier(Reply::replaced(facts.call, before)))
        }
    }
}

/// Returns the nodes of the earlier pod and of its successor, if they differ.
pub(crate) fn other_node<'a>(pod: &'a Pod, before: &'a Evacuation) -> Option<(&'a str, &'a str)> {
    let now = node_name(pod)?;
    let known = before.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
    (known != now).then_some((known, now))
}

/// Returns the time at which a pod was made.
fn created(pod: &Pod) -> Option<DateTime<Utc>> {
    pod.metadata.creation_timestamp.as_ref().map(from_condition_time)
}
