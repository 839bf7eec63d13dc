//! Pods that terminate.

use chrono::{DateTime, Utc};
use evacuation_api::DrainBlockerReason;
use k8s_openapi::api::core::v1::Pod;

use super::{DrainedPod, Hold, PodCount, PodJudgement, command, text};
use crate::time::after;

/// Time for which a pod may terminate after its grace period before it counts as held, in seconds. The
/// kubelet needs a moment after the containers have stopped.
pub(super) const MARGIN_SECONDS: i64 = 30;
/// Time after the end of its grace period at which a pod counts as stuck when nothing names the cause, in
/// seconds.
const UNEXPLAINED_SECONDS: i64 = 300;
/// Time within which Kubernetes removes the pods of a node that was deleted, in seconds. Its pod garbage
/// collection looks every 20 s, and removes the pods of a node that it has missed for 40 s. So it takes 80 s
/// at most.
pub(in crate::drain) const REMOVAL_SECONDS: i64 = 90;
/// Maximum number of finalizers that a message names.
const NAMED_FINALIZERS: usize = 5;

/// Judges a pod whose grace period ends at that time.
pub(super) fn judge(pod: &DrainedPod<'_>, end: DateTime<Utc>, now: DateTime<Utc>) -> PodJudgement {
    let limit = after(end, MARGIN_SECONDS);
    if now < limit {
        return PodJudgement::of(PodCount::Evicting).expected(Some(end)).changing_at(limit);
    }
    let finalizers = pod.pod.metadata.finalizers.as_deref().unwrap_or_default();
    let hold = if !finalizers.is_empty() {
        finalizer(pod, finalizers, end)
    } else if pod.node_silent_since.is_some() {
        unreachable(pod, end)
    } else {
        let cause = format!("the pod still terminates, and its grace period ended at {}", text::time(end));
        let way_out = format!(
            "look at the events of the pod and at the kubelet of its node{}; or, once its containers have \
             stopped, run {}",
            command::skip(pod),
            command::force(pod.pod)
        );
        Hold::new(DrainBlockerReason::Terminating, pod.object(), end, cause, way_out)
            .stuck_from(after(end, UNEXPLAINED_SECONDS), now)
    };
    PodJudgement::held(PodCount::Evicting, pod, hold)
}

/// Returns the way out for another pod that terminates and does not end, on a node that does not report if
/// that is named.
pub(super) fn way_out(other: &Pod, dead_node: Option<&str>) -> String {
    if !other.metadata.finalizers.as_deref().unwrap_or_default().is_empty() {
        return format!(
            "repair the controller that removes the finalizers of that pod; or remove them all, and what they \
             guard is not cleaned up: {}",
            command::remove_finalizers(other)
        );
    }
    match dead_node {
        Some(node) => format!(
            "repair the node; or, once it is certain that the node is off, have its pods removed: {}",
            command::out_of_service(node)
        ),
        None => format!(
            "look at the events of that pod and at the kubelet of its node; or, once its containers have \
             stopped, run {}",
            command::force(other)
        ),
    }
}

/// Judges a pod that the kubelet of its node ends, because the node shuts down.
pub(super) fn by_the_kubelet(
    pod: &DrainedPod<'_>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
) -> PodJudgement {
    let cause = format!(
        "node {} shuts down gracefully since {}, and its kubelet ends the pod",
        pod.node,
        text::time(since)
    );
    let way_out = format!(
        "nothing is needed; a node that stays needs its condition GracefulNodeShutdownInProgress at False, \
         and the pod is asked at {}",
        text::time(until)
    );
    let node = format!("Node/{}", pod.node);
    let hold = Hold::new(DrainBlockerReason::NodeShuttingDown, node, since, cause, way_out);
    PodJudgement::held(PodCount::Evicting, pod, hold.changing_at(Some(until)))
}

/// Judges a pod whose node was deleted at that time. No kubelet ends it, and its app is not asked any more.
pub(super) fn without_its_node(
    pod: &DrainedPod<'_>,
    deleted: DateTime<Utc>,
    now: DateTime<Utc>,
) -> PodJudgement {
    let limit = after(deleted, REMOVAL_SECONDS);
    let finalizers = pod.pod.metadata.finalizers.as_deref().unwrap_or_default();
    let ended = pod.grace_end().filter(|end| after(*end, MARGIN_SECONDS) <= now && !finalizers.is_empty());
    let hold = if let Some(end) = ended {
        finalizer(pod, finalizers, end)
    } else {
        let cause =
            format!("node {} was deleted at {}, and the pod is still there", pod.node, text::time(deleted));
        let way_out = if now < limit {
            format!("nothing is needed, because Kubernetes removes the pod by {}", text::time(limit))
        } else {
            format!(
                "find out why the pod garbage collection of the kube-controller-manager does not remove it; \
                 or, once it is certain that the machine is off: {}",
                command::force(pod.pod)
            )
        };
        let expected = (now < limit).then_some(limit);
        let hold = Hold::new(DrainBlockerReason::NodeDeleted, pod.object(), deleted, cause, way_out);
        hold.expected(expected).stuck_from(limit, now)
    };
    PodJudgement::held(PodCount::Evicting, pod, hold)
}

fn finalizer(pod: &DrainedPod<'_>, finalizers: &[String], end: DateTime<Utc>) -> Hold {
    let named: Vec<_> = finalizers.iter().take(NAMED_FINALIZERS).map(String::as_str).collect();
    let more = match finalizers.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let list = text::quote(&named.join(", "));
    let silent = text::dead_node(pod).map(|dead| format!("{dead}; ")).unwrap_or_default();
    let plural = if finalizers.len() == 1 { "" } else { "s" };
    let cause = format!(
        "{silent}the pod terminates, its grace period ended at {}, and it keeps the finalizer{plural} \
         {list}{more}",
        text::time(end)
    );
    let way_out = format!(
        "repair the controller that removes the finalizer{}; or remove all finalizers of the pod, and what \
         they guard is not cleaned up: {}",
        command::skip(pod),
        command::remove_finalizers(pod.pod)
    );
    Hold::new(DrainBlockerReason::Finalizer, pod.object(), end, cause, way_out).stuck()
}

/// Returns the hold of a pod on a node that does not report. It is the same for all pods of the node, so that
/// they are named together.
fn unreachable(pod: &DrainedPod<'_>, end: DateTime<Utc>) -> Hold {
    let dead = text::dead_node(pod).unwrap_or_default();
    let cause = format!("{dead}, and only its kubelet ends its pods");
    let way_out = format!(
        "repair the node{}; or, once it is certain that the node is off, have its pods removed: {}; and when \
         it is back: {}",
        command::skip(pod),
        command::out_of_service(pod.node),
        command::in_service(pod.node)
    );
    let node = format!("Node/{}", pod.node);
    Hold::new(DrainBlockerReason::NodeUnreachable, node, end, cause, way_out).stuck()
}
