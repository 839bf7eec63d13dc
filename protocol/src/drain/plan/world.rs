//! The part of the cluster that a drain depends on.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

use crate::drain::verdict::AttachFailure;

/// The part of the cluster that a drain depends on.
#[derive(Debug, Default)]
pub struct DrainWorld<'a> {
    /// The nodes that the drain names, has taken in, or that its selector picks.
    pub nodes: Vec<&'a Node>,
    /// The pods on the nodes that are being drained.
    pub pods: Vec<PodOnNode<'a>>,
    /// The pods on the nodes whose drain has not begun, each with its node's name.
    pub waiting: Vec<(&'a str, &'a Pod)>,
    /// The Evacuations that hold or held the drain's entry. Needed only when the drain is deleted.
    pub entries: Vec<&'a Evacuation>,
    /// The nodes that the API server did not let the controller cordon.
    pub rejected_nodes: Vec<RejectedNode<'a>>,
    /// DaemonSets that pods on these nodes name as their controller and that do not exist, as
    /// `NAMESPACE/NAME`.
    pub missing_daemon_sets: BTreeSet<String>,
    /// Volumes that cannot be attached, of the pods in [`PodOnNode::unready`].
    pub attach_failures: Vec<AttachFailure>,
}

/// A node that the API server did not let the controller cordon.
#[derive(Clone, Copy, Debug)]
pub struct RejectedNode<'a> {
    /// The node's name.
    pub node: &'a str,
    /// Reply of the API server.
    pub message: &'a str,
    /// Time of the first rejection.
    pub since: DateTime<Utc>,
}

/// A pod on a drained node, with what the cluster shows of it.
#[derive(Debug)]
pub struct PodOnNode<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The pod.
    pub pod: &'a Pod,
    /// The Evacuations of this pod, by its UID; finished ones too.
    pub evacuations: Vec<&'a Evacuation>,
    /// The budgets that select it.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// The pods that its budgets select, or that have its controller, and that are not ready and not
    /// terminating.
    pub unready: Vec<&'a Pod>,
    /// Name of another pod of its budgets that was asked and may have stopped its work. Only for a pod that
    /// waits until its budget lets it be asked.
    pub asked_beside: Option<&'a str>,
    /// Time since which the node's kubelet does not report.
    pub node_silent_since: Option<DateTime<Utc>>,
    /// Reply of the API server that rejected the request for the pod, and the time of the first one.
    pub rejected: Option<(&'a str, DateTime<Utc>)>,
}
