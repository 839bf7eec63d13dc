//! NodeMaintenance objects of medik8s, in a cluster that has the kind but not its operator.
//!
//! # Flow
//!
//! A NodeMaintenance gets a finalizer. The bridge takes medik8s' lease of the node and excludes the node from
//! remediation, and then opens one NodeEvacuation. Its progress becomes the NodeMaintenance's status. The
//! deletion of the NodeMaintenance deletes the NodeEvacuation, which withdraws the requests and uncordons the
//! node. The finalizer goes last.
//!
//! # Guarantees
//!
//! The bridge steps back from an object, and from a node, on which medik8s' operator acts. A cordon that was
//! there before stays. A NodeEvacuation that a user deletes is not opened again.

mod exclusion;

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{DrainedNodePhase, Evacuation, NODE_MAINTENANCE_FINALIZER as FINALIZER, NodeEvacuation};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Value, json};

use self::exclusion::Exclusion;
use super::{
    BridgeOptions,
    drains::{DELETED, DRAINING, Outcome, Progress},
    foreign::ForeignKind,
    requester::{Asked, Requester, Requests, node_of},
    text::{refusal, text},
};
use crate::cluster::{CallError, Cluster, Notice, ObjectKey, if_readable, is_finished};

const KIND: ForeignKind = ForeignKind {
    gvk: ["nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance"],
    spec: &["nodeName", "reason"],
    status: &[
        "phase",
        "drainProgress",
        "lastUpdate",
        "lastError",
        "pendingPods",
        "pendingPodsRefs",
        "totalpods",
        "evictionPods",
    ],
};
/// Finalizer of medik8s' operator.
const OPERATORS_FINALIZER: &str = "foregroundDeleteNodeMaintenance";
/// Holder of the leases that medik8s' operator takes.
const OPERATOR: &str = "node-maintenance";
/// Phase of a maintenance that is under way.
const RUNNING: &str = "Running";
/// Phase of a maintenance whose node is drained.
const SUCCEEDED: &str = "Succeeded";
/// Phase of a maintenance that has ended without a drained node.
const FAILED: &str = "Failed";
/// Maximum number of pods in the lists of pending pods.
const MAX_PENDING: usize = 100;

/// The bridge that plays the operator.
pub(crate) struct NodeMaintenances {
    requests: Requests,
    exclusion: Exclusion,
}

impl NodeMaintenances {
    /// Returns the bridge.
    pub(crate) fn new(cluster: &Cluster, options: &BridgeOptions) -> Arc<Self> {
        let requests = Requests::new(cluster, options, &KIND, FINALIZER);
        Arc::new(Self { requests, exclusion: Exclusion::new(cluster) })
    }

    /// Fails a maintenance, and takes its drain back.
    async fn fail(&self, object: &DynamicObject, reason: &'static str, error: &str) -> Asked {
        if let Some(drain) = self.requests.drain(object) {
            self.requests.close(object).await?;
            for node in &drain.spec.nodes.names {
                self.leave_node(object, node).await?;
            }
        }
        Ok(Some(Progress::new(Outcome::Failed, reason, error)))
    }

    /// Ends the exclusion of a node from remediation, unless another NodeMaintenance needs it.
    async fn leave_node(&self, object: &DynamicObject, name: &str) -> Result<(), CallError> {
        let needs = |other: &DynamicObject| {
            other.uid() != object.uid()
                && node_of(other) == name
                && self.requests.hold(other)
                && other.metadata.deletion_timestamp.is_none()
                && phase(other) != FAILED
        };
        if self.requests.foreign.all().iter().any(|other| needs(other)) {
            return Ok(());
        }
        self.exclusion.release(name).await
    }
}

fn phase(object: &DynamicObject) -> &str {
    text(&object.data, "/status/phase")
}

/// Returns the change of a status that shows a progress. `pending` are the pods that are asked and not gone,
/// and `on_node` is the number of all pods.
fn status(object: &DynamicObject, progress: &Progress, pending: &[ObjectKey], on_node: usize) -> Value {
    let next = match progress.outcome {
        Outcome::Complete => SUCCEEDED,
        // The drain of a drained node may be deleted.
        Outcome::Failed if progress.reason == DELETED && phase(object) == SUCCEEDED => SUCCEEDED,
        Outcome::Failed => FAILED,
        Outcome::Asking | Outcome::Waiting => RUNNING,
    };
    let is_error = next != SUCCEEDED && progress.reason != DRAINING;
    let error = if is_error { progress.message.as_str() } else { "" };
    let Some(drain) = &progress.drain else { return json!({"phase": next, "lastError": error}) };
    let pods = drain.status.as_ref().map(|status| status.pods).unwrap_or_default();
    // A drain that has not ended has at most 99 %.
    let percent = (i64::from(pods.gone) * 100).checked_div(pods.total.into()).unwrap_or_default();
    let pending: Vec<_> = pending.iter().take(if next == RUNNING { MAX_PENDING } else { 0 }).collect();
    let reference = |pod: &&ObjectKey| json!({"namespace": pod.namespace, "name": pod.name});
    // The pods of the first look count.
    let first = object.data.pointer("/status/totalpods").filter(|total| total.as_u64() > Some(0));
    json!({
        "phase": next,
        "lastError": error,
        "drainProgress": if next == SUCCEEDED { 100 } else { percent.clamp(0, 99) },
        "pendingPods": pending.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(),
        "pendingPodsRefs": pending.iter().map(reference).collect::<Vec<_>>(),
        "totalpods": first.unwrap_or(&json!(on_node)),
        "evictionPods": pods.total,
    })
}

/// Returns true when a drain took its requests back because another user uncordoned the node.
fn is_withdrawn(drain: &NodeEvacuation) -> bool {
    let mut nodes = drain.status.iter().flat_map(|status| &status.nodes);
    nodes.any(|node| node.phase == DrainedNodePhase::Withdrawn)
}

#[async_trait]
impl Requester for NodeMaintenances {
    const NAME: &'static str = "bridge of NodeMaintenances";

    fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns true when the operator acts on an object or on its node. The cordon is the operator's then.
    async fn is_over(&self, object: &DynamicObject) -> Result<bool, CallError> {
        let is_operators = object.finalizers().iter().any(|known| known == OPERATORS_FINALIZER);
        // A lease that may not be read is an error of the maintenance.
        let holder = if_readable(self.exclusion.other_holder(node_of(object)).await)?;
        if !is_operators && holder.as_deref() != Some(OPERATOR) {
            return Ok(false);
        }
        if !self.requests.hold(object) {
            let note = "medik8s' operator acts on it: the bridge leaves it alone".to_owned();
            self.requests.tell_once(object, Notice::warning("OperatorFound", note));
        }
        let Some(drain) = self.requests.drain(object) else { return Ok(true) };
        for node in &drain.spec.nodes.names {
            self.exclusion.leave_cordon(node, &drain.name_any()).await?;
        }
        Ok(true)
    }

    async fn ask(&self, object: &DynamicObject) -> Asked {
        let (before, name, drain) = (phase(object), node_of(object), self.requests.drain(object));
        if before == FAILED && drain.as_deref().is_none_or(is_withdrawn) {
            self.leave_node(object, name).await?;
            return Ok(None);
        }
        if drain.as_ref().is_some_and(|drain| drain.spec.nodes.names != [name]) {
            let error = "spec.nodeName was changed: it is immutable";
            return self.fail(object, "NodeNameChanged", error).await;
        }
        let Some(node) = self.requests.node(name).await? else {
            return self.fail(object, "NodeNotFound", &format!("nodes {name:?} not found")).await;
        };
        match self.exclusion.take(&node).await {
            Ok(None) => {
                let spec =
                    self.requests.drain_spec(name, "NodeMaintenance", text(&object.data, "/spec/reason"));
                self.requests.open(object, spec).await
            }
            Ok(Some(_)) if before == SUCCEEDED => Ok(None),
            Ok(Some(holder)) => {
                let error = format!("the node's lease is held by {holder}");
                if drain.is_some() {
                    return self.fail(object, "LeaseLost", &error).await;
                }
                Ok(Some(Progress::new(Outcome::Waiting, "LeaseHeld", &error)))
            }
            // The namespace of the leases, or a right, is missing, or the node's name is too long for one.
            Err(error) if matches!(error.code(), 403 | 404 | 422) && matches!(before, "" | RUNNING) => {
                let error = format!("the node's lease cannot be taken: {}", refusal(&error));
                Ok(Some(Progress::new(Outcome::Waiting, "LeaseNotTaken", &error)))
            }
            Err(error) => Err(error),
        }
    }

    fn change(&self, object: &DynamicObject, progress: &Progress) -> Option<Value> {
        let entry = progress.drain.as_ref().and_then(|drain| drain.entry_name()).unwrap_or_default();
        let index = self.requests.cluster.view.index();
        let asks = |known: &Evacuation| known.spec.requesters.iter().any(|known| known.name == entry);
        let on_node: Vec<_> = index.pods_on(node_of(object)).map(|pod| ObjectKey::of(pod.as_ref())).collect();
        let mut pending = on_node.clone();
        pending
            .retain(|pod| index.evacuations_of(pod).iter().any(|known| !is_finished(known) && asks(known)));
        let mut status = status(object, progress, &pending, on_node.len());
        let known = object.data.get("status");
        let is_known = |(name, value)| known.and_then(|known| known.get(name)) == Some(value);
        if status.as_object().is_some_and(|status| status.iter().all(is_known)) {
            return None;
        }
        let now = self.requests.cluster.clock.now();
        let time = json!(now.format("%Y-%m-%dT%H:%M:%SZ").to_string());
        status.as_object_mut()?.insert("lastUpdate".to_owned(), time);
        Some(status)
    }

    async fn take_back(&self, object: &DynamicObject) -> Result<bool, CallError> {
        let is_gone = self.requests.close(object).await?;
        if is_gone {
            self.leave_node(object, node_of(object)).await?;
        }
        Ok(is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maintenance(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "nm"}, "status": status})).unwrap()
    }

    fn progress(status: &Value) -> Progress {
        let drain = json!({"metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}}, "status": status});
        Progress::of(Arc::new(serde_json::from_value(drain).unwrap()))
    }

    fn condition(kind: &str) -> Value {
        json!([{"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn the_status_tells_the_progress_the_error_and_the_end() {
        let pods = json!({"total": 4, "gone": 1});
        let table = [
            (json!({}), "Running", 0, ""),
            (json!({"pods": pods, "verdict": "Slow", "message": "wait"}), "Running", 25, ""),
            (json!({"pods": pods, "verdict": "Stuck", "message": "stuck"}), "Running", 25, "stuck"),
            (json!({"pods": pods, "conditions": condition("Failed"), "message": "no"}), "Failed", 25, "no"),
            (json!({"pods": {"total": 0}, "conditions": condition("Drained")}), "Succeeded", 100, ""),
        ];
        for (status, phase, percent, error) in table {
            let new = maintenance(&json!({"phase": 5}));
            let found = super::status(&new, &progress(&status), &[ObjectKey::new("shop", "db-0")], 19);
            let seen =
                json!([found["phase"], found["drainProgress"], found["lastError"], found["totalpods"]]);
            assert_eq!(seen, json!([phase, percent, error, 19]), "{status}");
            let pending = if phase == "Running" { json!(["db-0"]) } else { json!([]) };
            assert_eq!(found["pendingPods"], pending, "{status}");
        }
    }

    #[test]
    fn the_pods_of_the_first_look_are_kept_and_the_lists_are_bounded() {
        let pending: Vec<_> = (0..5000).map(|number| ObjectKey::new("ns", format!("p-{number}"))).collect();
        let found = status(&maintenance(&json!({"totalpods": 7})), &progress(&json!({})), &pending, 3);
        assert_eq!(found["totalpods"], 7);
        assert_eq!(found["pendingPodsRefs"].as_array().map(Vec::len), Some(MAX_PENDING));
    }

    #[test]
    fn the_deletion_of_the_drain_fails_a_maintenance_unless_the_node_is_drained() {
        let deleted = Progress::new(Outcome::Failed, DELETED, "the drain was deleted");
        for (before, after) in [(RUNNING, FAILED), (SUCCEEDED, SUCCEEDED)] {
            let object = maintenance(&json!({"phase": before}));
            assert_eq!(status(&object, &deleted, &[], 3)["phase"], after);
        }
    }
}
