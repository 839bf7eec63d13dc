//! Pods that terminate.

use chrono::{DateTime, Utc};
use evacuation_api::DrainBlockerReason;

use super::{DrainedPod, Hold, PodCount, PodJudgement, text};
use crate::time::after;

/// Time for which a pod may terminate after its grace period before it counts as held, in seconds. The
/// kubelet needs a moment after the containers have stopped.
const MARGIN_SECONDS: i64 = 30;
/// Time after the end of its grace period at which a pod counts as stuck when nothing names the cause, in
/// seconds.
const UNEXPLAINED_SECONDS: i64 = 300;
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
        let way_out = "look at the events of the pod and at the kubelet of its node, or delete the pod with \
                       --grace-period=0 --force once its containers have stopped";
        Hold::new(DrainBlockerReason::Terminating, pod.object(), end, cause, way_out)
            .stuck_from(after(end, UNEXPLAINED_SECONDS), now)
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
    let silent = if pod.node_silent_since.is_some() {
        format!(", and its node {} does not report", pod.node)
    } else {
        String::new()
    };
    let cause = format!(
        "the pod terminates, its grace period ended at {}, and it keeps the finalizers {list}{more}{silent}",
        text::time(end)
    );
    let way_out = "repair the controller that removes the finalizer, or remove it from the pod by hand";
    Hold::new(DrainBlockerReason::Finalizer, pod.object(), end, cause, way_out).stuck()
}

fn unreachable(pod: &DrainedPod<'_>, end: DateTime<Utc>) -> Hold {
    let cause = format!(
        "the pod terminates, its grace period ended at {}, and its node {} does not report",
        text::time(end),
        pod.node
    );
    let way_out = "repair the node; or, once it is certain that the node is off, add the taint \
                   node.kubernetes.io/out-of-service:NoExecute to it, or delete the pod with \
                   --grace-period=0 --force; or set spec.pods.skipTerminatingSeconds to \
                   drain without the pod";
    let node = format!("Node/{}", pod.node);
    Hold::new(DrainBlockerReason::NodeUnreachable, node, end, cause, way_out).stuck()
}
