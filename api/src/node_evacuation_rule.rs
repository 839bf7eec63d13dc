//! The NodeEvacuationRule: opens drains of nodes that get a mark.

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{LabelSelector, ObjectMeta},
    util::intstr::IntOrString,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CordonPolicy, DrainPhase, DrainRequester, MaxParallel, NodeEvacuation, NodeEvacuationRuleStatus,
    NodeEvacuationSpec, NodeSelection, PodRules, api_version, default_node_evacuation, kind::kind,
};

/// Finalizer that holds a deleted NodeEvacuationRule until the drains that it opened are gone.
pub const RULE_FINALIZER: &str = "drain.evacuation.dev/close";
/// Value of `maxNodes` that is filled in: the share of the cluster's nodes.
pub const DEFAULT_MAX_NODES: &str = "10%";

/// Drains nodes that get a mark: a taint, a condition, a label or an annotation.
///
/// It opens one NodeEvacuation for each node with a mark, and deletes it when the mark disappears. Deleting
/// the rule deletes the NodeEvacuations that it opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationRule {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `NodeEvacuationRule`.
    #[serde(default = "NodeEvacuationRule::default_kind")]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The marks, and how the nodes are drained.
    pub spec: NodeEvacuationRuleSpec,
    /// The nodes with a mark. Written by the controller; `requester`: by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeEvacuationRuleStatus>,
}

kind!(NodeEvacuationRule, "NodeEvacuationRule", "nodeevacuationrules", ClusterResourceScope);

/// The marks, and how the nodes are drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationRuleSpec {
    /// The marks. A node with any one of them is drained.
    pub marks: Vec<NodeMarkPattern>,
    /// Selector of the nodes for which the rule is made. Without one it is made for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Time by which the node must be empty. Without it the deadline is `template.requester.deadlineSeconds`
    /// after the opening of the drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<NoticeDeadline>,
    /// Maximum number of nodes that are under the NodeEvacuations of rules at a time, those of all rules
    /// together: a number, or a percentage of the cluster's nodes, rounded up. This rule opens no drain
    /// beyond it. `10%` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<IntOrString>,
    /// The NodeEvacuations that are opened.
    #[serde(default)]
    pub template: NodeEvacuationTemplate,
    /// True to open no drain. Drains that were opened go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A mark of a node. Exactly one field is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMarkPattern {
    /// A taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<TaintPattern>,
    /// A condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionPattern>,
    /// A label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<KeyPattern>,
    /// An annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<KeyPattern>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaintPattern {
    /// The taint's key.
    pub key: String,
    /// The taint's value; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The taint's effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionPattern {
    /// The condition's type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The condition's status: `True`, `False` or `Unknown`; `True` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Seconds for which the condition must have had that status; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<i64>,
}

/// A label or an annotation of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyPattern {
    /// The key.
    pub key: String,
    /// The value; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Time by which a node must be empty: read from its notice, or counted from it. The earlier one counts when
/// both are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoticeDeadline {
    /// The place on the node that holds the time: RFC 3339, a date of HTTP or e-mail, or seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NoticeTime>,
    /// Seconds from the appearance of the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<i64>,
    /// Seconds from the appearance of the mark, used when the notice carries no readable time. Only together
    /// with `from`. A drain that has a deadline already keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_seconds: Option<i64>,
    /// Seconds before that time at which the remaining pods are evicted, such as their grace period. 0 by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_seconds: Option<i64>,
}

impl NoticeDeadline {
    /// Returns true when a node has a deadline whatever its notice says.
    pub fn is_sure(&self) -> bool {
        self.after_seconds.is_some() || self.default_seconds.is_some()
    }
}

/// The place on a node that holds a time. Exactly one field is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoticeTime {
    /// Key of the annotation whose value is the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<String>,
    /// Key of the label whose value is the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Key of the taint whose value is the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<String>,
}

// Not flattened into `NodeEvacuationSpec`: serde then knows neither the path of a wrong field nor the unknown
// ones, and `kubectl explain` would say of `maxParallel` and `phases` the same for both.
/// The part of a NodeEvacuation's spec that a rule gives. Its fields mean what those of a NodeEvacuation
/// mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationTemplate {
    /// The request that is made of each pod.
    #[serde(default)]
    pub requester: DrainRequester,
    /// The pods that are asked, left alone, and those at which the drain is stuck.
    #[serde(default)]
    pub pods: PodRules,
    /// The phases of each node's drain, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<DrainPhase>,
    /// Limit on the pods that are asked at a time. Only `pods` may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<MaxParallel>,
    /// Time at which a node is cordoned; `BeforeAsking` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<CordonPolicy>,
}

impl NodeEvacuationTemplate {
    /// Returns the spec of the NodeEvacuation of a node.
    pub fn spec_for(&self, node: &str) -> NodeEvacuationSpec {
        let Self { requester, pods, phases, max_parallel, cordon } = self.clone();
        let nodes = NodeSelection { names: vec![node.to_owned()], ..NodeSelection::default() };
        NodeEvacuationSpec {
            nodes,
            requester,
            pods,
            phases,
            max_parallel,
            cordon,
            paused: false,
            // The drain goes with its mark.
            ttl_seconds_after_finished: None,
        }
    }
}

impl NodeMarkPattern {
    /// Returns the mark in words, such as `taint example.com/spot`.
    pub fn text(&self) -> String {
        let with = |kind: &str, key: &str, value: Option<&str>| match value {
            Some(value) => format!("{kind} {key}={value}"),
            None => format!("{kind} {key}"),
        };
        match self {
            Self { taint: Some(taint), .. } => with("taint", &taint.key, taint.value.as_deref()),
            Self { condition: Some(condition), .. } => {
                with("condition", &condition.type_, Some(condition.status()))
            }
            Self { label: Some(label), .. } => with("label", &label.key, label.value.as_deref()),
            Self { annotation, .. } => {
                let annotation = annotation.clone().unwrap_or_default();
                with("annotation", &annotation.key, annotation.value.as_deref())
            }
        }
    }
}

impl ConditionPattern {
    /// Returns the status that the condition must have.
    pub fn status(&self) -> &str {
        self.status.as_deref().unwrap_or("True")
    }
}

/// Fills in the defaults, as the schema documents them.
pub fn default_node_evacuation_rule(rule: &mut NodeEvacuationRule) {
    let spec = &mut rule.spec;
    spec.max_nodes.get_or_insert_with(|| IntOrString::String(DEFAULT_MAX_NODES.to_owned()));
    for condition in spec.marks.iter_mut().filter_map(|mark| mark.condition.as_mut()) {
        condition.status.get_or_insert_with(|| "True".to_owned());
    }
    let mut drain = NodeEvacuation::new("", spec.template.spec_for(""));
    default_node_evacuation(&mut drain);
    let NodeEvacuationSpec { requester, pods, cordon, .. } = drain.spec;
    spec.template = NodeEvacuationTemplate { requester, pods, cordon, ..std::mem::take(&mut spec.template) };
}
