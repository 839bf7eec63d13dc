//! PodGroups whose pods are disrupted together: all members get one answer.
//!
//! # Rules
//!
//! Kubernetes' PodGroup (`scheduling.k8s.io/v1beta1`) says by `disruptionMode: {all: {}}` that its pods can
//! only be disrupted together. So whoever asks one member asks all of them:
//!
//! 1. The controller asks the other members on behalf of the requester ([`plan_group`]).
//! 2. No member is evicted before every responder of every member is done ([`other_members`], `decide`).
//! 3. A refusal that ends the Evacuation of one member ends those of all, unless their policy is harder.
//! 4. A deletion by the controller that owns the pod concerns that pod alone, and so does the refresh of a
//!    pod in a crash loop.
//! 5. A deadline acts for its own Evacuation, whatever the other members do.
//!
//! A group with more than [`MAX_GROUP_MEMBERS`] pods that can be disrupted is treated as if its pods were
//! disrupted one by one. Pods that have ended, or wait for a node, make no group too large.

mod member;
mod plan;

use evacuation_api::{GATEWAY_ENTRY_PREFIX, GATEWAY_WORKLOAD_ROWS, REFRESH_REQUESTER};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1beta1::PodGroup};

use crate::pod::{LivePod, PodPhase};

pub use self::{
    member::{GroupPod, Member, MemberState, holding, members_beside, other_members},
    plan::{GroupAct, part_group, plan_group},
};

/// Maximum number of pods of a group that are disrupted together: of those for which [`can_be_disrupted`] is
/// true.
///
/// Each change of one member is a decision about all of them, and one request for one member is an Evacuation
/// of each.
pub const MAX_GROUP_MEMBERS: usize = 128;

/// Maximum number of pods of a group that is disrupted together, those included that have ended or wait for a
/// node: so many are looked at for each change of one.
pub const MAX_GROUP_PODS: usize = 2048;

/// Returns true when an entry of that name disrupts its pod. The deletion of a pod by the controller that
/// owns it, as in a scale-down, disrupts nothing, and the other pods of the group stay. The refresh of a pod
/// in a crash loop concerns that pod alone: a pod that fails could otherwise move all others.
pub fn disrupts(entry: &str) -> bool {
    let row = entry.strip_prefix(GATEWAY_ENTRY_PREFIX);
    entry != REFRESH_REQUESTER && row.is_none_or(|row| !GATEWAY_WORKLOAD_ROWS.contains(&row))
}

/// Returns the name of the pod's PodGroup.
pub fn pod_group(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_deref()
}

/// Returns true for a pod that runs on a node and stays there unless somebody asks it to move.
pub fn can_be_disrupted(pod: &Pod) -> bool {
    let live = LivePod::of(pod);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    !node.is_empty() && live.phase != PodPhase::Terminal && live.terminating_until.is_none()
}

/// Returns true when the pods of a PodGroup can only be disrupted together.
pub fn moves_together(group: &PodGroup) -> bool {
    group.spec.disruption_mode.as_ref().is_some_and(|mode| mode.all.is_some())
}
