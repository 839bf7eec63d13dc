//! Pods that are not asked, and pods that were left alone.

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionType, DrainBlockerReason, Evacuation, EvacuationStatus, FailedReason, LeftAlonePod,
    from_condition_time,
};
use k8s_openapi::api::core::v1::Pod;

use super::{DrainedPod, Hold, PodCount, PodJudgement, text};
use crate::{DrainRefusal, pod::daemon_set, time::stamp};

/// Judges a pod that the pod rules of the drain refuse. The first reason names the blocker.
pub(super) fn by_rules(pod: &DrainedPod<'_>, reasons: &[DrainRefusal], now: DateTime<Utc>) -> PodJudgement {
    let Some(first) = reasons.first() else { return PodJudgement::of(PodCount::Waiting) };
    let (reason, _) = rule(*first);
    let object = match (reason, daemon_set(pod.pod)) {
        (DrainBlockerReason::DaemonSet, Some(name)) => format!("DaemonSet/{}", text::quote(name)),
        _ => pod.object(),
    };
    let mut causes: Vec<String> = Vec::new();
    let mut ways: Vec<&str> = Vec::new();
    for refusal in reasons {
        causes.push(refusal.to_string());
        ways.push(rule(*refusal).1);
    }
    ways.dedup();
    let cause = format!("the rules of the drain refuse the pod: {}", causes.join(", "));
    let way_out = format!("set {}, or leave the pod out by spec.pods.selector", ways.join(" and "));
    PodJudgement::held(PodCount::Blocked, pod, Hold::new(reason, object, now, cause, way_out).stuck())
}

/// Returns the reason of the blocker, and the field that lets the pod be asked or left alone.
fn rule(refusal: DrainRefusal) -> (DrainBlockerReason, &'static str) {
    match refusal {
        DrainRefusal::DaemonSet => (DrainBlockerReason::DaemonSet, "spec.pods.daemonSets: Skip or Last"),
        DrainRefusal::LocalStorage => (
            DrainBlockerReason::LocalStorage,
            "spec.pods.emptyDirData: Delete (the data of its emptyDir volumes is lost)",
        ),
        DrainRefusal::MissingDaemonSet | DrainRefusal::Unmanaged => {
            (DrainBlockerReason::Unmanaged, "spec.pods.unmanaged: Evict (nothing creates the pod again)")
        }
    }
}

/// Judges a pod for which the API server rejects the request. The controller retries.
pub(super) fn by_server(
    pod: &DrainedPod<'_>,
    message: &str,
    since: DateTime<Utc>,
    now: DateTime<Utc>,
) -> PodJudgement {
    let cause = format!("the API server rejects the request for the pod{}", text::remark([message]));
    let way_out = "remove the cause that the API server names; the controller retries";
    let hold = Hold::new(DrainBlockerReason::RequestRejected, pod.object(), since, cause, way_out);
    PodJudgement::held(PodCount::Blocked, pod, hold.stuck_when_it_lasts(now))
}

/// Judges a pod whose Evacuation ended without moving it.
pub(super) fn left_alone(pod: &DrainedPod<'_>, evacuation: &Evacuation, now: DateTime<Utc>) -> PodJudgement {
    let status = evacuation.status.as_ref();
    let failed = status.and_then(|status| status.true_condition(ConditionType::Failed));
    let reason = status.and_then(EvacuationStatus::reason::<FailedReason>);
    let said = text::remark(failed.map(|condition| condition.message.as_str()));
    let since = ended_at(status, now);
    stays(pod, reason, &said, since, text::name(&evacuation.metadata))
}

/// Judges a pod that was left alone, and whose Evacuation is gone.
pub(super) fn left_alone_before(pod: &DrainedPod<'_>, record: &LeftAlonePod) -> PodJudgement {
    let reason = record.reason.as_deref().and_then(FailedReason::parse);
    stays(pod, reason, "", record.since.0, &record.evacuation)
}

/// Returns the record of a pod that was left alone.
pub(in crate::drain) fn record(
    node: &str,
    pod: &Pod,
    evacuation: &Evacuation,
    now: DateTime<Utc>,
) -> LeftAlonePod {
    let status = evacuation.status.as_ref();
    let reason = status.and_then(EvacuationStatus::reason::<FailedReason>);
    let metadata = &pod.metadata;
    LeftAlonePod {
        uid: metadata.uid.clone().unwrap_or_default(),
        node: node.to_owned(),
        pod: format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), text::name(metadata)),
        evacuation: text::name(&evacuation.metadata).to_owned(),
        reason: reason.map(|reason| reason.as_str().to_owned()),
        since: stamp(ended_at(status, now)),
    }
}

fn ended_at(status: Option<&EvacuationStatus>, now: DateTime<Utc>) -> DateTime<Utc> {
    let failed = status.and_then(|status| status.true_condition(ConditionType::Failed));
    failed
        .map(|condition| from_condition_time(&condition.last_transition_time))
        .or_else(|| status?.finish_time.map(|time| time.0))
        .unwrap_or(now)
}

fn stays(
    pod: &DrainedPod<'_>,
    reason: Option<FailedReason>,
    said: &str,
    since: DateTime<Utc>,
    evacuation: &str,
) -> PodJudgement {
    let ended = match reason {
        Some(FailedReason::Refused) => "a responder refused",
        Some(FailedReason::Canceled) => "the request was canceled",
        Some(FailedReason::DeadlineGaveUp) => "the deadline passed",
        None => "the request ended",
    };
    let cause = format!("the pod was left alone, because {ended}{said}");
    let way_out = match reason {
        Some(FailedReason::Canceled) => "find out who canceled it; then drain again, or delete the pod",
        _ => {
            "agree with the owner of the pod; then delete the pod, or drain again with \
             spec.requester.onRefusal: Override"
        }
    };
    let object = format!("Evacuation/{evacuation}");
    let count = if reason == Some(FailedReason::Refused) { PodCount::Refused } else { PodCount::Blocked };
    let hold = Hold::new(DrainBlockerReason::LeftAlone, object, since, cause, way_out);
    PodJudgement::held(count, pod, hold.stuck())
}
