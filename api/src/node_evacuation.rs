//! The NodeEvacuation: a declarative drain of nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DEFAULT_TIME_ZONE, DeadlineAction, DrainConditionType, DrainVerdict, NodeEvacuationStatus, RefusalPolicy,
    Window, api_version, kind::kind,
};

/// Finalizer that holds a deleted NodeEvacuation until its entries are withdrawn, the responders know, and
/// the nodes that it cordoned are uncordoned.
pub const DRAIN_FINALIZER: &str = "drain.evacuation.dev/withdraw";
/// Node annotation with the names of the NodeEvacuations that need the node cordoned, separated by commas.
/// While it is there, the cordon belongs to them: the last one to leave uncordons the node.
pub const CORDONED_BY_ANNOTATION: &str = "drain.evacuation.dev/cordoned-by";
/// Taint of a node that is to be drained later. Its effect is PreferNoSchedule, so that replacements of
/// evacuated pods avoid the node.
pub const DUE_TAINT: &str = "drain.evacuation.dev/due";
/// Type of the condition of a node that a drain names: it is expected to undergo a change.
pub const MAINTENANCE_PLANNED: &str = "MaintenancePlanned";
/// Type of the condition of a node that was drained, and that its drain still keeps out of service.
pub const MAINTENANCE_IN_PROGRESS: &str = "MaintenanceInProgress";
/// Type of the condition of a node whose kubelet ends its pods, because the node shuts down gracefully.
pub const GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS: &str = "GracefulNodeShutdownInProgress";
/// Reason of the conditions of a node that the controller set to True.
pub const NODE_MARKED: &str = "NodeEvacuation";
/// Reason of the conditions of a node that the controller set to False.
pub const NODE_UNMARKED: &str = "NoNodeEvacuation";
/// Type of the condition of a node that is being drained.
pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";
/// Type of the condition of a node that was drained.
pub const DRAINED: &str = "Drained";
/// Domain and slash of the entries of NodeEvacuations: `drain.evacuation.dev/NAME-UID`, where UID is the
/// first eight characters of the NodeEvacuation's UID.
pub const DRAIN_ENTRY_PREFIX: &str = "drain.evacuation.dev/";
/// Length of the part of an entry's name that tells drains of one name apart: the first characters of a UID.
const UID_PART: usize = 8;

/// Drains nodes: cordons them, asks their pods to move, and reports the progress.
///
/// Deleting it withdraws its requests, waits until the responders know, and uncordons the nodes that no other
/// NodeEvacuation and no person keeps cordoned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuation {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `NodeEvacuation`.
    #[serde(default = "NodeEvacuation::default_kind")]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The nodes to drain, and how.
    pub spec: NodeEvacuationSpec,
    /// The progress. Written by the controller; `requester`: by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeEvacuationStatus>,
}

kind!(NodeEvacuation, "NodeEvacuation", "nodeevacuations", ClusterResourceScope);

impl NodeEvacuation {
    /// Returns a NodeEvacuation of that name, not yet created. An empty name leaves the naming to
    /// `generateName`.
    pub fn new(name: &str, spec: NodeEvacuationSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            metadata: ObjectMeta {
                name: (!name.is_empty()).then(|| name.to_owned()),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }

    /// Returns the name of its entries in Evacuations. It differs from that of any other NodeEvacuation,
    /// also of a later one of the same name. `None` before it is stored.
    pub fn entry_name(&self) -> Option<String> {
        let (name, uid) = (self.metadata.name.as_deref()?, self.metadata.uid.as_deref()?);
        Some(format!("{DRAIN_ENTRY_PREFIX}{name}-{}", uid.get(..UID_PART).unwrap_or(uid)))
    }

    /// Returns the name of the drain that made an entry of that name. `None` for the entry of another.
    pub fn name_in_entry(entry: &str) -> Option<&str> {
        let (name, uid) = entry.strip_prefix(DRAIN_ENTRY_PREFIX)?.rsplit_once('-')?;
        (uid.len() == UID_PART && !name.is_empty()).then_some(name)
    }

    /// Returns the verdict in every view: table, metrics, plugin. A drain that was deleted before its end is
    /// `Canceled`, also before the controller has noticed.
    pub fn verdict(&self) -> DrainVerdict {
        let ended = self.status.as_ref().filter(|status| status.is_true(DrainConditionType::Finished));
        match (ended, &self.status) {
            (None, _) if self.metadata.deletion_timestamp.is_some() => DrainVerdict::Canceled,
            (_, Some(status)) => status.verdict(),
            (_, None) => DrainVerdict::default(),
        }
    }
}

/// The nodes to drain, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvacuationSpec {
    /// The nodes to drain. Immutable.
    pub nodes: NodeSelection,
    /// The request that is made of each pod.
    #[serde(default)]
    pub requester: DrainRequester,
    /// The pods that are asked, left alone, and those at which the drain is stuck.
    #[serde(default)]
    pub pods: PodRules,
    /// The phases of each node's drain, in their order. A pod belongs to the first phase that picks it. Pods
    /// that no phase picks are asked last. The pods of a phase are asked when those of the earlier ones are
    /// gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<DrainPhase>,
    /// Limits on what is drained at a time. Without limits all nodes are drained at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<MaxParallel>,
    /// Time at which a node is cordoned; `BeforeAsking` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<CordonPolicy>,
    /// True to begin no node and to ask no further pod. Pods that were asked go on. The drain does not end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Seconds after the end of the drain at which it is deleted, which uncordons the nodes that it cordoned.
    /// Without it, a drain that has ended stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// The nodes to drain: by their names, or by a selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelection {
    /// Names of the nodes, in the order in which they are drained. Not together with `selector`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Vec<String>,
    /// Selector of the nodes: those that match when the drain begins, in the order of their names. It must
    /// not be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// True to add nodes that match the selector later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// The request that is made of each pod. Its fields mean what those of an Evacuation's requester mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequester {
    /// The reason in CamelCase, for machines, such as `NodeMaintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Reaction to a refusal; `Wait` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_refusal: Option<RefusalPolicy>,
    /// Seconds until the deadline, counted from the creation of the NodeEvacuation, or from the opening of
    /// its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i64>,
    /// Action at the deadline; `Evict` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<DeadlineAction>,
    /// Grace period of the evictions, in seconds; each pod's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Time window in which the drain begins. Nothing is cordoned or asked before it opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// The pods that are asked, left alone, and those at which the drain is stuck. The rules are
/// those of `kubectl drain`. A mirror pod is left alone, and a completed pod is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRules {
    /// Pods of DaemonSets; `Skip` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_sets: Option<DaemonSetRule>,
    /// Pods with emptyDir volumes, whose data is lost; `Refuse` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir_data: Option<EmptyDirRule>,
    /// Pods that no controller creates again, also those whose DaemonSet does not exist; `Refuse` by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmanaged: Option<UnmanagedRule>,
    /// Pods that come to a node while it is drained; `Evacuate` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateRule>,
    /// Selector of the pods. Other pods are left alone. Without one every pod counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Seconds after the end of its grace period at which a terminating pod is no longer waited for, such as
    /// one on a node whose kubelet is dead. Without it every terminating pod is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_terminating_seconds: Option<i64>,
}

/// Rule for the pods of DaemonSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DaemonSetRule {
    /// They are left alone.
    #[default]
    Skip,
    /// Their node is not drained.
    Refuse,
    /// They are asked when all other pods of the node are gone. Each is asked once: the pods that their
    /// DaemonSets create in their place are left alone.
    Last,
}

/// Rule for pods with emptyDir volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum EmptyDirRule {
    /// Their node is not drained.
    #[default]
    Refuse,
    /// They are asked, and the data of their volumes is lost.
    Delete,
}

/// Rule for pods that no controller creates again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum UnmanagedRule {
    /// Their node is not drained.
    #[default]
    Refuse,
    /// They are asked, and nothing creates them again.
    Evict,
}

/// Rule for pods that come to a node while it is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum LateRule {
    /// They are asked, those of one owner in rounds with pauses that grow.
    #[default]
    Evacuate,
    /// They are left alone.
    Skip,
}

/// One phase of a node's drain: the pods that every given field picks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainPhase {
    /// Selector of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Lowest priority of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_priority: Option<i32>,
    /// Highest priority of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<i32>,
}

/// Limits on what is drained at a time. A limit that is absent limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaxParallel {
    /// Maximum number of nodes that are being drained at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// Maximum number of pods that are asked and not gone, of all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
    /// Limit on the nodes that share a value of a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_topology_key: Option<TopologyLimit>,
}

/// Limit on the nodes that share a value of a label, such as a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLimit {
    /// The label's key, such as `topology.kubernetes.io/zone`. Nodes without the label share one value.
    pub key: String,
    /// Maximum number of nodes of one value that are being drained at a time.
    pub nodes: i32,
}

/// Time at which a node is cordoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum CordonPolicy {
    /// Before its pods are asked.
    #[default]
    BeforeAsking,
    /// Once every responder of its pods is done. Until then the node stays a candidate for a failover.
    AfterAnswers,
    /// Never.
    Never,
}

/// Fills in the defaults, as the schema documents them.
pub fn default_node_evacuation(drain: &mut NodeEvacuation) {
    let spec = &mut drain.spec;
    let requester = &mut spec.requester;
    requester.on_refusal.get_or_insert_default();
    if requester.deadline_seconds.is_some() {
        requester.at_deadline.get_or_insert_default();
    }
    if let Some(window) = &mut requester.window {
        window.time_zone.get_or_insert_with(|| DEFAULT_TIME_ZONE.to_owned());
    }
    let pods = &mut spec.pods;
    pods.daemon_sets.get_or_insert_default();
    pods.empty_dir_data.get_or_insert_default();
    pods.unmanaged.get_or_insert_default();
    pods.late.get_or_insert_default();
    spec.cordon.get_or_insert_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_its_drain_before_the_part_of_the_uid() {
        for (entry, expected) in [
            ("drain.evacuation.dev/node-a-12345678", Some("node-a")),
            ("drain.evacuation.dev/a-12345678", Some("a")),
            ("drain.evacuation.dev/-12345678", None),
            ("drain.evacuation.dev/short", None),
            ("a.example.com/node-a-12345678", None),
        ] {
            assert_eq!(NodeEvacuation::name_in_entry(entry), expected, "{entry}");
        }
    }
}
