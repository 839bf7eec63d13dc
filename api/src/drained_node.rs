//! One node in the status of a NodeEvacuation: its phase, verdict, cordon and the numbers of its pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Maximum number of pods of DaemonSets that a drain asks on one node.
pub const MAX_DAEMON_SET_PODS: usize = 32;
/// Maximum number of entries in `returned` of all nodes of a drain together.
pub const MAX_RETURNED_OWNERS: usize = 100;
/// Maximum number of entries in `pods` of an entry in `returned`.
pub const MAX_RETURNED_PODS: usize = 32;
/// Maximum number of entries in `countedPods` of all nodes of a drain together.
pub const MAX_COUNTED_PODS: usize = 4000;

/// One node of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainedNode {
    /// The node's name.
    pub name: String,
    /// The node's UID when the drain took it in. A later node of that name is drained only with
    /// `spec.nodes.follow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The phase of its drain.
    #[serde(default)]
    pub phase: DrainedNodePhase,
    /// The owner of its cordon.
    #[serde(default)]
    pub cordoned: CordonOwner,
    /// Its pods.
    #[serde(default)]
    pub pods: DrainPodCounts,
    /// The state in one word.
    #[serde(default)]
    pub verdict: DrainVerdict,
    /// The reason of phase and verdict, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which its drain began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Time at which the controller found that the node was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_time: Option<Timestamp>,
    /// UIDs of the DaemonSet pods that are asked last, at most 32: those that were on the node when all other
    /// pods were gone. Other pods of DaemonSets are left alone from then on. Empty before, and after the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub daemon_set_pods: Vec<String>,
    /// First 8 characters of the UIDs of the pods that count in `pods` and are not gone. Such a pod is gone
    /// when no pod of its UID is on the node any more. At most 4000 in a drain: the pods of further nodes
    /// count by their number. Empty before, and after the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub counted_pods: Vec<String>,
    /// The owners whose pods came to the node after its drain began, and how often. The pods of an owner are
    /// asked in rounds. After three, the pauses grow and the drain is `Stuck`. At most 100 in a drain:
    /// without room the record of an owner whose pause is over gives way. Empty after the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub returned: Vec<ReturnedOwner>,
}

impl DrainedNode {
    /// Returns true while the drain takes its requests on the node back, such as after an uncordon. Then
    /// `cordoned` still says whose cordon it was.
    pub fn is_being_left(&self) -> bool {
        self.phase == DrainedNodePhase::Draining && self.verdict == DrainVerdict::Canceled
    }

    /// Returns true when the node is cordoned, as far as the drain knows.
    pub fn is_cordoned(&self) -> bool {
        self.cordoned != CordonOwner::No && !self.is_being_left()
    }
}

/// An owner whose pods came to a node after its drain began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReturnedOwner {
    /// The namespace of the pods.
    pub namespace: String,
    /// The controller of the pods, as `KIND/NAME`. Absent for the pods of the namespace without one, and for
    /// those of further controllers, when eight on the node have a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The UID of that controller. Absent like `owner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Number of rounds that began. A round is recorded before its pods are asked.
    pub rounds: i32,
    /// Time at which the last round began.
    pub last_round_time: Timestamp,
    /// First 8 characters of the UIDs of the pods in the last round, at most 32. Further pods wait for the
    /// next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<String>,
}

/// The phase of a node's drain.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DrainedNodePhase {
    /// It was not begun.
    #[default]
    Pending,
    /// Its pods are asked.
    Draining,
    /// Every pod that was to move is gone, or `pods.skipped` counts it.
    Drained,
    /// The node was deleted, and its pods are gone.
    Gone,
    /// Another user uncordoned it, or another node took its name: the drain took its requests back.
    Withdrawn,
    /// A pod was left alone, because its responder refused, or its request was canceled.
    Failed,
}

impl DrainedNodePhase {
    /// Returns true when the node's drain is over.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Drained | Self::Gone) || self.is_failure()
    }

    /// Returns true when the node's drain is over and the node was not drained.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Withdrawn | Self::Failed)
    }
}

/// The owner of a node's cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum CordonOwner {
    /// The node is not cordoned.
    #[default]
    No,
    /// This NodeEvacuation, alone or together with other NodeEvacuations.
    Ours,
    /// Someone else.
    Others,
}

/// State of a drain, or of one node's.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DrainVerdict {
    /// It has not begun: it waits for its window, its turn, or because it is paused.
    #[default]
    Waiting,
    /// Pods move.
    Draining,
    /// It waits for something that ends by itself: a delay, a budget, a grace period.
    Slow,
    /// Nothing changes by itself. `blockers` names what must change.
    Stuck,
    /// It has ended: every pod that was to move is gone, or `pods.skipped` counts it.
    Drained,
    /// It has ended, and a node was not drained.
    Failed,
    /// It was deleted before its end: its requests are taken back, and its nodes are released.
    Canceled,
}

impl DrainVerdict {
    /// All verdicts.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Draining, Self::Slow, Self::Stuck, Self::Drained, Self::Failed, Self::Canceled];

    /// Returns the word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Draining => "Draining",
            Self::Slow => "Slow",
            Self::Stuck => "Stuck",
            Self::Drained => "Drained",
            Self::Failed => "Failed",
            Self::Canceled => "Canceled",
        }
    }
}

/// Numbers of pods. Each pod counts in `total` and in one of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainPodCounts {
    /// Pods that are to move or have moved.
    #[serde(default)]
    pub total: i32,
    /// Pods that were not asked yet.
    #[serde(default)]
    pub waiting: i32,
    /// Pods whose responder was asked.
    #[serde(default)]
    pub asked: i32,
    /// Pods whose responder asked for a delay.
    #[serde(default)]
    pub delayed: i32,
    /// Pods whose responder refused.
    #[serde(default)]
    pub refused: i32,
    /// Pods that are being evicted or terminate.
    #[serde(default)]
    pub evicting: i32,
    /// Pods whose eviction is held back.
    #[serde(default)]
    pub blocked: i32,
    /// Pods that are gone.
    #[serde(default)]
    pub gone: i32,
    /// Pods that are there and that the drain no longer waits for: they terminate for longer than
    /// `spec.pods.skipTerminatingSeconds`, or the rules of the drain picked them once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(count: &i32) -> bool {
    *count == 0
}
