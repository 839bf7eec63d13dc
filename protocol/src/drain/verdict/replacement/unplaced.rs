//! A pod without a node of which no scheduler says why.

use k8s_openapi::api::core::v1::{Pod, PodCondition};

use super::{super::text, condition};
use crate::pod::{LivePod, PodPhase};

/// Name of the scheduler of a pod that names none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Command that shows if that scheduler works.
const LEASE: &str = "kubectl get lease kube-scheduler -n kube-system";
/// Maximum number of scheduling gates that a cause names.
const NAMED_GATES: usize = 3;

/// Returns true for a condition by which a scheduler says that no node takes the pod.
pub(super) fn says_why(scheduled: &PodCondition) -> bool {
    scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable")
}

/// Returns true for a pod that has no node, although no scheduler said why.
pub(super) fn is_unplaced(pod: &Pod) -> bool {
    let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let is_explained = condition(pod, "PodScheduled").is_some_and(says_why);
    LivePod::of(pod).phase == PodPhase::Pending && !is_placed && !is_explained
}

/// Returns what is known of such a pod, as a part of a sentence.
pub(super) fn what(pod: &Pod) -> String {
    if let Some(gates) = gates(pod) {
        return format!("which no scheduler may place before its scheduling gates are removed: {gates}");
    }
    format!("which has no node, and scheduler {} has not said why", text::quote(scheduler(pod)))
}

/// Returns the ways out.
pub(super) fn way_out(pod: &Pod) -> String {
    match scheduler(pod) {
        _ if gates(pod).is_some() => "see if the controller that removes the gates works, such as that of a \
                                      quota; or remove them from spec.schedulingGates of the pod"
            .to_owned(),
        DEFAULT_SCHEDULER => format!("see if the kube-scheduler works: {LEASE}"),
        other => format!(
            "see if the scheduler {} works; or have the owner name another one (spec.schedulerName)",
            text::quote(other)
        ),
    }
}

/// Returns the names of the gates that keep a pod from the scheduler, if it has some.
fn gates(pod: &Pod) -> Option<String> {
    let gates = pod.spec.as_ref()?.scheduling_gates.as_deref().filter(|gates| !gates.is_empty())?;
    let names: Vec<_> = gates.iter().take(NAMED_GATES).map(|gate| gate.name.as_str()).collect();
    Some(text::quote(&names.join(", ")))
}

/// Returns the name of the pod's scheduler.
fn scheduler(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_SCHEDULER)
}
