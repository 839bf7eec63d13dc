//! Pods, budgets and Evacuations for the tests of the verdict.

use evacuation_api::{
    Answer, DeadlineAction, DrainBlockerReason, EvacuationStatus, Requester, ResponderState,
};
use serde_json::{Value, json};

use super::*;
use crate::testing::{asking, at, condition, evacuation_for, requester};

pub(super) const DRAIN: &str = "drain.evacuation.dev/n-12345678";

/// Some seconds of [`at`] as a time on the wire.
pub(super) fn time(seconds: i64) -> String {
    at(seconds).to_rfc3339()
}

/// Pod `db-0` of a StatefulSet, running and ready since 0, with what `patch` says instead.
pub(super) fn pod(patch: Value) -> Pod {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true}]);
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": time(0)});
    let mut value = json!({
        "metadata": {"name": "db-0", "namespace": "shop", "uid": "pod-1", "ownerReferences": owner},
        "status": {"phase": "Running", "conditions": [ready]},
    });
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

pub(super) fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

/// A change to [`pod`]: not ready since 0.
pub(super) fn unready() -> Value {
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": time(0)});
    json!({"status": {"conditions": [condition]}})
}

/// A change to [`pod`]: terminating, with the end of its grace period at 100.
pub(super) fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": time(100)}})
}

/// Another pod of the budget, which terminates, with the end of its grace period.
pub(super) fn terminating_until(name: &str, end: i64) -> Pod {
    pod(json!({"metadata": {"name": name, "uid": name, "deletionTimestamp": time(end)}}))
}

/// A replacement that starts.
pub(super) fn starting(name: &str) -> Pod {
    pod(json!({"metadata": {"name": name, "uid": name}, "status": {"phase": "Pending", "conditions": []}}))
}

/// A replacement that the scheduler found no node for at 0.
pub(super) fn unschedulable(name: &str) -> Pod {
    let scheduled = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": time(0),
        "message": "0/3 nodes are available:\n1 node(s) were unschedulable",
    });
    let status = json!({"phase": "Pending", "conditions": [scheduled]});
    pod(json!({"metadata": {"name": name, "uid": name}, "status": status}))
}

/// A replacement whose container waits for that reason, not ready since 0.
pub(super) fn waiting(name: &str, reason: &str) -> Pod {
    let state = json!({"waiting": {"reason": reason, "message": format!("said of {reason}")}});
    let container =
        json!({"name": "app", "state": state, "ready": false, "restartCount": 0, "image": "", "imageID": ""});
    let mut patch = unready();
    merge(&mut patch, json!({"metadata": {"name": name, "uid": name}}));
    merge(&mut patch, json!({"status": {"containerStatuses": [container]}}));
    pod(patch)
}

/// A budget by its numbers: allowed, healthy, desired and expected pods.
pub(super) fn budget(
    allowed: i32,
    healthy: i32,
    desired: i32,
    expected: i32,
    patch: Value,
) -> PodDisruptionBudget {
    let mut value = json!({
        "metadata": {"name": "db", "namespace": "shop", "generation": 2},
        "spec": {"maxUnavailable": 0},
        "status": {
            "observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": desired, "expectedPods": expected,
        },
    });
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

/// A budget that two of three pods satisfy, of which two are healthy.
pub(super) fn exhausted() -> PodDisruptionBudget {
    budget(0, 2, 2, 3, json!({}))
}

pub(super) fn sync_failed(seen: i64) -> PodDisruptionBudget {
    let condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "observedGeneration": seen,
        "lastTransitionTime": time(5), "message": "db.acme.io does not implement the scale subresource",
    });
    budget(0, 0, 0, 0, json!({"status": {"conditions": [condition]}}))
}

/// The condition Blocked for that reason since 0.
pub(super) fn blocked(mut e: Evacuation, reason: &str, message: &str) -> Evacuation {
    let mut condition = condition("Blocked", "True", reason);
    message.clone_into(&mut condition.message);
    e.status.get_or_insert_default().conditions.push(condition);
    e
}

/// An entry with a deadline.
pub(super) fn due(seconds: i64, action: DeadlineAction) -> Vec<Requester> {
    vec![Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..requester(DRAIN) }]
}

/// An Evacuation whose eviction is held back since 0, with other entries.
pub(super) fn evicting_for(requesters: Vec<Requester>) -> Evacuation {
    blocked(evacuation_for(requesters), "BudgetExhausted", "Cannot evict pod")
}

pub(super) fn evicting() -> Evacuation {
    evicting_for(vec![requester(DRAIN)])
}

pub(super) fn with(mut e: Evacuation, change: impl FnOnce(&mut EvacuationStatus)) -> Evacuation {
    change(e.status.get_or_insert_default());
    e
}

/// An answer of `self` at 10: a delay until 500, or a refusal that may be reconsidered at `retry`.
pub(super) fn answered(e: Evacuation, answer: Answer, retry: Option<i64>) -> Evacuation {
    with(e, |status| {
        let active = &mut status.responders.as_mut().unwrap()[0];
        active.answer = Some(answer);
        active.answer_time = Some(at(10).into());
        active.delay_until = (answer == Answer::Delay).then(|| at(500).into());
        active.retry_time = retry.map(|seconds| at(seconds).into());
        active.message = Some("a backup runs".to_owned());
    })
}

pub(super) fn drained<'a>(pod: &'a Pod, standing: Standing<'a>) -> DrainedPod<'a> {
    DrainedPod {
        drain: Some("n"),
        selects_all: true,
        node: "n",
        cordon: CordonPolicy::BeforeAsking,
        pod,
        standing,
        budgets: Vec::new(),
        unready: Some(Vec::new()),
        asked_beside: None,
        attach_failures: &[],
        node_silent_since: None,
        node_deleted: None,
    }
}

/// A judgement as a line: count, reason, object, stuck or slow, since and expected in seconds.
pub(super) fn line(judgement: &PodJudgement) -> String {
    let seconds = |time: DateTime<Utc>| (time - at(0)).num_seconds();
    let expected = judgement.expected.map_or("-".to_owned(), |time| seconds(time).to_string());
    let Some(blocker) = &judgement.blocker else {
        return format!("{:?} {expected}", judgement.count);
    };
    assert!(DrainBlockerReason::parse(&blocker.reason).is_some(), "{}", blocker.reason);
    assert_eq!((blocker.node.as_str(), blocker.pod.as_deref()), ("n", Some("shop/db-0")));
    assert!(blocker.message.contains("; what helps: "), "{}", blocker.message);
    assert!(!blocker.message.contains(char::is_control) && blocker.message.len() <= 1024);
    let word = if blocker.stuck { "stuck" } else { "slow" };
    let object = blocker.object.as_deref().unwrap_or("-");
    let since = seconds(blocker.since.0);
    format!("{:?} {} {object} {word} {since} {expected}", judgement.count, blocker.reason)
}

/// A volume that cannot be attached for the pod of that UID since 0.
pub(super) fn attached_elsewhere(uid: &str) -> AttachFailure {
    let message = "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) db-0".to_owned();
    AttachFailure { pod_uid: uid.to_owned(), message, since: at(0) }
}

/// Judges at 1000 a pod whose eviction its budgets hold back. Other pods were not read if none is given.
pub(super) fn held(
    pod: &Pod,
    e: &Evacuation,
    budgets: &[PodDisruptionBudget],
    unready: &[Pod],
) -> PodJudgement {
    let failures = [attached_elsewhere("volume")];
    let mut pod = drained(pod, Standing::Asked(e));
    pod.budgets = budgets.iter().collect();
    pod.unready = (!unready.is_empty()).then(|| unready.iter().collect());
    pod.attach_failures = &failures;
    judge(&pod, at(1000))
}

/// An Evacuation whose responder accepted at 10, and which was not attempted yet.
pub(super) fn asking_done() -> Evacuation {
    with(answered(asking(), Answer::Accept, None), |status| {
        status.responders.as_mut().unwrap()[0].state = ResponderState::Completed;
    })
}
