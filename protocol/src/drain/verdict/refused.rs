//! Pods that are not asked, and pods that were left alone.

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionType, DrainBlockerReason, Evacuation, EvacuationStatus, FailedReason, LeftAlonePod,
    from_condition_time,
};
use k8s_openapi::api::core::v1::Pod;

use super::{DrainedPod, Hold, PodCount, PodJudgement, command, text};
use crate::{DrainRefusal, pod::daemon_set, time::stamp};

/// Judges a pod that the pod rules of the drain refuse. The first reason names the blocker.
pub(super) fn by_rules(pod: &DrainedPod<'_>, reasons: &[DrainRefusal], now: DateTime<Utc>) -> PodJudgement {
    let Some(first) = reasons.first() else { return PodJudgement::of(PodCount::Waiting) };
    let reason = rule(*first).reason;
    let object = match (reason, daemon_set(pod.pod)) {
        (DrainBlockerReason::DaemonSet, Some(owner)) => {
            format!("{}/{}", text::quote(&owner.kind), text::quote(&owner.name))
        }
        _ => pod.object(),
    };
    let causes: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let mut rules: Vec<Rule> = reasons.iter().map(|refusal| rule(*refusal)).collect();
    rules.dedup();
    let flags: Vec<&str> = rules.iter().map(|rule| rule.flag).collect();
    let effects: Vec<&str> = rules.iter().map(|rule| rule.effect).collect();
    let cause = format!("the rules of the drain refuse the pod: {}", causes.join(", "));
    let way_out = format!(
        "{}; then {}{}",
        command::change_rules(pod, &flags.join(" ")),
        effects.join(", and "),
        command::leave_out(pod)
    );
    PodJudgement::held(PodCount::Blocked, pod, Hold::new(reason, object, now, cause, way_out).stuck())
}

/// Rule of a drain that lets a pod be asked or left alone.
#[derive(PartialEq, Eq)]
struct Rule {
    /// Reason of the blocker without the rule.
    reason: DrainBlockerReason,
    /// Flag of the plugin that sets the rule.
    flag: &'static str,
    /// Effect on the pods of the drain, in words.
    effect: &'static str,
}

fn rule(refusal: DrainRefusal) -> Rule {
    let (reason, flag, effect) = match refusal {
        DrainRefusal::DaemonSet => {
            (DrainBlockerReason::DaemonSet, "--ignore-daemonsets", "all pods of DaemonSets stay")
        }
        DrainRefusal::LocalStorage => (
            DrainBlockerReason::LocalStorage,
            "--delete-emptydir-data",
            "all pods of the drain lose the data of their emptyDir volumes",
        ),
        DrainRefusal::MissingDaemonSet | DrainRefusal::Unmanaged => (
            DrainBlockerReason::Unmanaged,
            "--force",
            "all pods of the drain go that no controller creates again",
        ),
    };
    Rule { reason, flag, effect }
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
        Some(FailedReason::PodGroupRefused) => "another pod of its PodGroup refused",
        Some(FailedReason::Canceled) => "the request was canceled",
        Some(FailedReason::DeadlineGaveUp) => "the deadline passed",
        Some(FailedReason::Rehearsed) | None => "the request ended",
    };
    let cause = format!("the pod was left alone, because {ended}{said}");
    let ask = command::ask(pod.pod);
    let again = if pod.drain.is_some() { "drain again" } else { "try again" };
    let way_out = match reason {
        Some(FailedReason::Canceled) => format!("find out who canceled it; then {again}; or run {ask}"),
        Some(FailedReason::DeadlineGaveUp) => format!(
            "{again} with a later deadline; or have this pod evicted after 10 minutes, within its budgets: {ask} \
             --deadline=10m --at-deadline=evict"
        ),
        _ => format!("agree with the owner of the pod, and {again}; or run {ask} --on-refusal=override"),
    };
    let object = format!("Evacuation/{evacuation}");
    let refused = matches!(reason, Some(FailedReason::Refused | FailedReason::PodGroupRefused));
    let count = if refused { PodCount::Refused } else { PodCount::Blocked };
    let hold = Hold::new(DrainBlockerReason::LeftAlone, object, since, cause, way_out);
    PodJudgement::held(count, pod, hold.stuck())
}
