//! The NodeEvacuationRule's status: the nodes with a mark, and what became of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainUser, Timestamp};

/// Type of the condition of a rule that holds nodes back.
pub const RULE_HOLDS_BACK: &str = "HoldsBack";

/// The nodes with a mark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationRuleStatus {
    /// The generation that the status reflects. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The user who created the rule. Its drains belong to this user. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<DrainUser>,
    /// Number of nodes that are under the NodeEvacuations of rules now, those of all rules. Controller.
    #[serde(default)]
    pub nodes_drained: i32,
    /// Number of nodes that this rule lets them be. Controller.
    #[serde(default)]
    pub nodes_allowed: i32,
    /// Number of nodes with a mark whose drain is held back, and of waiting nodes for which the list has no
    /// place. Controller.
    #[serde(default)]
    pub nodes_held: i32,
    /// Number of listed nodes whose notice carries no readable time. Controller.
    #[serde(default)]
    pub nodes_unread: i32,
    /// The nodes with a mark, at most 500. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub nodes: Vec<MarkedNode>,
    /// `HoldsBack`. Controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A node with a mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkedNode {
    /// The node's name.
    pub name: String,
    /// The node's UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The mark in words, such as `taint example.com/spot`.
    pub mark: String,
    /// Time at which the mark appeared: that of the taint or condition, or else the time at which the
    /// controller saw it.
    pub since: Timestamp,
    /// The state of the node under the rule.
    #[serde(default)]
    pub phase: MarkedNodePhase,
    /// Name of the NodeEvacuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_evacuation: Option<String>,
    /// Time at which the remaining pods are evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The reason for which the time of the node's notice cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice_problem: Option<String>,
    /// The reason of the phase, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The state of a node with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum MarkedNodePhase {
    /// Its drain is about to be opened.
    #[default]
    Pending,
    /// Its drain is not opened: the limit is reached, the rule is paused, or the name is taken.
    Held,
    /// It has a drain that has not ended.
    Draining,
    /// It was drained.
    Drained,
    /// Its drain has failed.
    Failed,
    /// A user deleted its drain. It is not drained again before the mark disappears.
    Dismissed,
}
