//! A pod for which a budget waits in vain, and why.

use chrono::{DateTime, Utc};
use evacuation_api::DrainBlockerReason;
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};

use super::{
    super::{AttachFailure, DrainedPod, Hold, asked::Ask, command, leaving, text},
    condition, since,
    unplaced::{self, is_unplaced, says_why},
    unready_since,
};
use crate::pod::{LivePod, PodPhase};

/// Reasons of a waiting container whose image is missing, as the kubelet writes them.
const IMAGE_REASONS: &[&str] = &["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
/// Reasons of a waiting container that does not start or crashes.
const CRASH_REASONS: &[&str] =
    &["CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/// A replacement that does not become ready by itself.
pub(in crate::drain::verdict) struct Failure<'a> {
    pod: &'a Pod,
    reason: DrainBlockerReason,
    /// The object that must change: the pod, if it is not another one.
    object: Option<String>,
    since: Option<DateTime<Utc>>,
    what: String,
}

impl<'a> Failure<'a> {
    pub(super) fn of(pod: &'a Pod, attach_failures: &[AttachFailure]) -> Option<Self> {
        unschedulable(pod).or_else(|| container(pod)).or_else(|| volume(pod, attach_failures))
    }

    /// Returns true for a pod that terminates and does not end.
    pub(in crate::drain::verdict) fn hangs(&self) -> bool {
        self.reason == DrainBlockerReason::ReplacementTerminating
    }

    pub(super) fn order(&self) -> (u8, &str) {
        let rank = match self.reason {
            DrainBlockerReason::ReplacementUnschedulable => 0,
            DrainBlockerReason::ReplacementVolume => 1,
            DrainBlockerReason::ReplacementImage => 2,
            DrainBlockerReason::ReplacementCrashing => 3,
            DrainBlockerReason::ReplacementTerminating => 4,
            _ => 5,
        };
        (rank, text::name(&self.pod.metadata))
    }

    /// Returns the hold on a pod whose budget waits for the replacement.
    pub(in crate::drain::verdict) fn hold(self, ask: &Ask<'_>, budget: &PodDisruptionBudget) -> Hold {
        let name = text::name(&self.pod.metadata);
        let budget_name = text::quote(text::name(&budget.metadata));
        let cause = format!("budget {budget_name} waits for pod {name}, {}", self.what);
        let mut way_out = match self.reason {
            DrainBlockerReason::ReplacementUnschedulable if is_unplaced(self.pod) => {
                unplaced::way_out(self.pod)
            }
            DrainBlockerReason::ReplacementUnschedulable => {
                let capacity = "add capacity or uncordon a node";
                match command::end(ask.pod) {
                    Some(end) => format!(
                        "{capacity}; or, as two drains that wait for each other's replacements show exactly \
                         this, end this one: {end}"
                    ),
                    None => capacity.to_owned(),
                }
            }
            DrainBlockerReason::ReplacementVolume => {
                "let the pod that uses the volume go, and repair the kubelet and the volume driver of its \
                 node, which detach the volume; or, once it is certain that the node is off, add the taint \
                 node.kubernetes.io/out-of-service:NoExecute to it, or delete the VolumeAttachment"
                    .to_owned()
            }
            DrainBlockerReason::ReplacementImage => {
                "correct the name of the image, or let the nodes pull it".to_owned()
            }
            DrainBlockerReason::ReplacementTerminating => {
                leaving::way_out(self.pod, dead_node(self.pod, ask.pod).map(|_| ask.pod.node))
            }
            DrainBlockerReason::ReplacementUnready => {
                let repair = if dead_node(self.pod, ask.pod).is_some() {
                    let taint = command::out_of_service(ask.pod.node);
                    format!(
                        "repair the node; or, once it is certain that the node is off, have its pods removed: \
                         {taint}"
                    )
                } else {
                    "repair the app or the node of that pod".to_owned()
                };
                match command::end(ask.pod) {
                    Some(end) => format!(
                        "{repair}; or end the request, so that apps that were asked can take up their work \
                         again: {end}"
                    ),
                    None => repair,
                }
            }
            _ => "repair the app or its configuration".to_owned(),
        };
        if !ask.live.ready {
            way_out.push_str("; or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget: ");
            way_out.push_str(&command::let_unready_go(budget));
        }
        let since = self.since.unwrap_or(ask.now);
        let object = self.object.unwrap_or_else(|| format!("Pod/{name}"));
        Hold::new(self.reason, object, since, cause, way_out).stuck_when_it_lasts(ask.now)
    }
}

fn unschedulable(pod: &Pod) -> Option<Failure<'_>> {
    let scheduled = condition(pod, "PodScheduled").filter(|scheduled| says_why(scheduled))?;
    if LivePod::of(pod).phase != PodPhase::Pending {
        return None;
    }
    Some(Failure {
        pod,
        reason: DrainBlockerReason::ReplacementUnschedulable,
        object: None,
        since: since(pod, scheduled),
        what: format!("which cannot be scheduled{}", text::remark(scheduled.message.as_deref())),
    })
}

/// Returns the failure of a container of the pod: first that of an image.
fn container(pod: &Pod) -> Option<Failure<'_>> {
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    let waiting = || {
        let containers = all.into_iter().flatten().flatten();
        containers.filter_map(|c| Some((c.name.as_str(), c.state.as_ref()?.waiting.as_ref()?)))
    };
    let find = |reasons: &[&str]| {
        waiting().find(|(_, state)| state.reason.as_deref().is_some_and(|reason| reasons.contains(&reason)))
    };
    let since = unready_since(pod);
    if let Some((name, state)) = find(IMAGE_REASONS) {
        let said = text::remark(state.message.as_deref());
        let what = format!("the image of whose container {name} cannot be pulled{said}");
        return Some(Failure {
            pod,
            reason: DrainBlockerReason::ReplacementImage,
            object: None,
            since,
            what,
        });
    }
    let (name, state) = find(CRASH_REASONS)?;
    let reason = state.reason.as_deref().unwrap_or_default();
    // The kubelet's message of a crash loop says only how long it waits.
    let message = state.message.as_deref().filter(|_| reason != "CrashLoopBackOff");
    let what =
        format!("whose container {name} does not run{}", text::remark([reason].into_iter().chain(message)));
    let reason = DrainBlockerReason::ReplacementCrashing;
    Some(Failure { pod, reason, object: None, since, what })
}

/// Returns the failure of a pod around a drained one that has not become ready and does not say why.
pub(super) fn given_up<'p>(pod: &'p Pod, drained: &DrainedPod<'_>) -> Failure<'p> {
    if !is_unplaced(pod) {
        return unready(pod, drained);
    }
    let reason = DrainBlockerReason::ReplacementUnschedulable;
    Failure { pod, reason, object: None, since: unready_since(pod), what: unplaced::what(pod) }
}

fn unready<'p>(pod: &'p Pod, drained: &DrainedPod<'_>) -> Failure<'p> {
    let since = unready_since(pod);
    let said = since.map(|since| format!(" since {}", text::time(since))).unwrap_or_default();
    let because = dead_node(pod, drained).map(|dead| format!(", because {dead}")).unwrap_or_default();
    let what = format!("which has not been ready{said}{because}");
    let reason = DrainBlockerReason::ReplacementUnready;
    Failure { pod, reason, object: None, since, what }
}

/// Returns the failure of a pod that terminates and does not end.
pub(super) fn terminating<'p>(pod: &'p Pod, drained: &DrainedPod<'_>) -> Failure<'p> {
    let since = LivePod::of(pod).terminating_until;
    let ended = since.map(|end| format!(", and whose grace period ended at {}", text::time(end)));
    let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
    let because = match finalizers.first() {
        Some(first) => format!(", and which keeps the finalizer {}", text::quote(first)),
        None => dead_node(pod, drained).map(|dead| format!(", because {dead}")).unwrap_or_default(),
    };
    let what = format!("which still terminates{}{because}", ended.unwrap_or_default());
    Failure { pod, reason: DrainBlockerReason::ReplacementTerminating, object: None, since, what }
}

/// Returns the statement that the node of both pods does not report. `None` otherwise.
fn dead_node(pod: &Pod, drained: &DrainedPod<'_>) -> Option<String> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    text::dead_node(drained).filter(|_| node == drained.node)
}

/// Returns the failure of a volume that the pod, which has a node, waits for.
fn volume<'p>(pod: &'p Pod, failures: &[AttachFailure]) -> Option<Failure<'p>> {
    let failure = failures.iter().find(|failure| Some(&failure.pod_uid) == pod.metadata.uid.as_ref())?;
    if LivePod::of(pod).phase != PodPhase::Pending {
        return None;
    }
    let said = text::remark([failure.message.as_str()]);
    Some(Failure {
        pod,
        reason: DrainBlockerReason::ReplacementVolume,
        object: failure.volume().map(|name| format!("PersistentVolume/{}", text::quote(name))),
        since: Some(failure.since),
        what: format!("which waits for a volume that cannot be attached to its node{said}"),
    })
}
