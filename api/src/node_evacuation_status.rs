//! The NodeEvacuation's status: the progress of all nodes together, the blockers and the plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DrainConditionType, DrainPodCounts, DrainVerdict, DrainedNode, Timestamp, drained_node::is_zero,
};

/// Maximum number of nodes of one NodeEvacuation.
pub const MAX_DRAINED_NODES: usize = 500;
/// Maximum number of entries in `status.blockers`.
pub const MAX_DRAIN_BLOCKERS: usize = 20;
/// Maximum number of entries in `status.leftAlone`.
pub const MAX_LEFT_ALONE_PODS: usize = 200;
/// Maximum number of entries in `status.plan`.
pub const MAX_PLANNED_PODS: usize = 2000;

/// The progress of a drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationStatus {
    /// The generation that the status reflects. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The user who created the object. Its entries in Evacuations belong to this user. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<DrainUser>,
    /// The state in one word. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<DrainVerdict>,
    /// The reason of the verdict, in words. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which the drain begins: the creation, or the opening of the window. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Expected end of the drain. Absent when nothing says when a pod goes. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_completion: Option<Timestamp>,
    /// Time at which the drain ended. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Timestamp>,
    /// The pods of all nodes, also of those whose drain has not begun. Controller.
    #[serde(default)]
    pub pods: DrainPodCounts,
    /// The nodes, in the order in which they are drained. Fixed when the drain begins, unless it follows a
    /// selector. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub nodes: Vec<DrainedNode>,
    /// Number of nodes that match the selector and are not drained, because the drain has 500 nodes already.
    /// Controller.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nodes_omitted: i32,
    /// The causes that hold the drain back, the oldest first, at most 20. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<DrainBlocker>,
    /// Number of blockers that are not listed. Controller.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blockers_omitted: i32,
    /// The pods on nodes in progress that the drain has asked and that stay, at most 200. They are not asked
    /// again, also when their Evacuations are gone. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub left_alone: Vec<LeftAlonePod>,
    /// The pods of the nodes and what the drain would do with each, at most 2000. Only in the reply to a
    /// creation with `dryRun`; never stored. Server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub plan: Vec<PlannedPod>,
    /// Number of pods that the plan does not list. Server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub plan_omitted: i32,
    /// `Drained`, `Failed`, `Finished` and `Paused`. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl NodeEvacuationStatus {
    /// Returns true when the condition of that type is True.
    pub fn is_true(&self, kind: DrainConditionType) -> bool {
        self.conditions.iter().any(|c| c.type_ == kind.as_str() && c.status == "True")
    }

    /// Returns the number of nodes whose drain is over.
    pub fn nodes_done(&self) -> usize {
        self.nodes.iter().filter(|node| node.phase.is_final()).count()
    }

    /// Returns the number of blockers, those that are not listed included.
    pub fn held(&self) -> usize {
        self.blockers.len().saturating_add(usize::try_from(self.blockers_omitted).unwrap_or_default())
    }

    /// Returns the verdict: that of its end once it has ended, and `Waiting` before the controller wrote one.
    pub fn verdict(&self) -> DrainVerdict {
        if self.is_true(DrainConditionType::Failed) {
            DrainVerdict::Failed
        } else if self.is_true(DrainConditionType::Drained) {
            DrainVerdict::Drained
        } else {
            self.verdict.unwrap_or_default()
        }
    }
}

/// A user who asks for a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainUser {
    /// The user's name.
    pub user: String,
    /// The user's groups at that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Time of the request that proved the groups. Of a rule: the user's last write that renewed them.
    pub time: Timestamp,
}

/// A pod that a drain asked once and that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftAlonePod {
    /// The pod's UID.
    pub uid: String,
    /// The node.
    pub node: String,
    /// The pod, as `NAMESPACE/NAME`.
    pub pod: String,
    /// Name of the Evacuation by which it was asked. It can be gone.
    pub evacuation: String,
    /// The reason for which the Evacuation failed. Absent when only this drain's request ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time at which the request ended.
    pub since: Timestamp,
}

/// Something that holds a drain back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainBlocker {
    /// The node.
    pub node: String,
    /// The pod, as `NAMESPACE/NAME`. Absent for a blocker of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The owner of the pod, as `KIND/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The reason in CamelCase, for machines.
    pub reason: String,
    /// The object that must change, as `KIND/NAME`, in the pod's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// True when nothing changes by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
    /// Time since which it holds the drain back.
    pub since: Timestamp,
    /// The reason in words, and the ways out.
    pub message: String,
}

/// A pod in the plan of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// The pod's UID.
    pub uid: String,
    /// The node.
    pub node: String,
    /// The pod, as `NAMESPACE/NAME`.
    pub pod: String,
    /// The act of the drain.
    pub act: PlannedAct,
    /// The reasons of the act, and the losses that it causes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<PlannedReason>,
}

/// The act of a drain on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PlannedAct {
    /// Ask it to move, and then evict it.
    Ask,
    /// Delete it, because it has ended.
    Delete,
    /// Wait for its end, because it terminates already.
    Wait,
    /// Leave it alone.
    Leave,
    /// Ask no pod of its node, because the rules of the drain refuse this one.
    Refuse,
}

/// A reason in a drain's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedReason {
    /// The reason in CamelCase, for machines.
    pub reason: String,
    /// The reason in words.
    pub message: String,
}
