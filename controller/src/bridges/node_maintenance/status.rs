//! Status of a NodeMaintenance, as medik8s defines it, and its derivation from the drain.

use evacuation_api::{DrainConditionType, DrainVerdict, DrainedNodePhase, NodeEvacuation};
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};

use crate::{bridges::text::fitting, cluster::ObjectKey};

/// Maximum number of pods in the lists of pending pods.
pub(super) const MAX_PENDING: usize = 100;
/// Number of blockers that are named in the error.
const NAMED_BLOCKERS: usize = 3;

/// Phase of a maintenance that is under way.
const RUNNING: &str = "Running";
/// Phase of a maintenance whose node is drained.
const SUCCEEDED: &str = "Succeeded";
/// Phase of a maintenance that has ended without a drained node.
const FAILED: &str = "Failed";

/// Status of a NodeMaintenance. Every field is written, so that a merge leaves no old value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) phase: String,
    pub(super) drain_progress: i32,
    /// Time of the last change, which is no change by itself.
    pub(super) last_update: Option<String>,
    pub(super) last_error: String,
    pub(super) pending_pods: Vec<String>,
    pub(super) pending_pods_refs: Vec<PodReference>,
    /// Number of pods on the node at the first look.
    #[serde(rename = "totalpods")]
    pub(super) total_pods: i32,
    pub(super) eviction_pods: i32,
}

/// One pod that is still on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PodReference {
    namespace: String,
    name: String,
}

impl Status {
    /// Returns the status of an object; an empty one if it has none that can be read.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or_default();
        serde_json::from_value(status).unwrap_or_default()
    }

    /// Returns true when the maintenance has ended without a drained node.
    pub(super) fn has_failed(&self) -> bool {
        self.phase == FAILED
    }

    /// Returns true when the node is drained.
    pub(super) fn has_succeeded(&self) -> bool {
        self.phase == SUCCEEDED
    }

    /// Returns the status of a maintenance that waits for something other than pods.
    pub(super) fn waiting(&self, error: &str) -> Self {
        Self { phase: RUNNING.to_owned(), last_error: fitting(error), ..self.clone() }
    }

    /// Returns the status of a maintenance that has failed.
    pub(super) fn failed(&self, error: &str) -> Self {
        Self { phase: FAILED.to_owned(), ..self.waiting(error) }
    }

    /// Returns the status that follows from the drain. `pending` are the pods that are asked and not gone.
    pub(super) fn progress(&self, drain: &NodeEvacuation, pending: &[ObjectKey], on_node: usize) -> Self {
        let status = drain.status.clone().unwrap_or_default();
        let (total, gone) = (status.pods.total, status.pods.gone);
        let drained = status.is_true(DrainConditionType::Drained);
        let message = status.message.as_deref().unwrap_or_default();
        let (phase, error) = if drained {
            (SUCCEEDED, String::new())
        } else if status.is_true(DrainConditionType::Failed) {
            (FAILED, fitting(message))
        } else if status.verdict == Some(DrainVerdict::Stuck) {
            let blockers = status.blockers.iter().take(NAMED_BLOCKERS);
            let named = blockers.map(|blocker| {
                format!("; {}: {}", blocker.pod.as_ref().unwrap_or(&blocker.node), blocker.message)
            });
            (RUNNING, fitting(&format!("{message}{}", named.collect::<String>())))
        } else {
            (RUNNING, String::new())
        };
        let pending = if phase == RUNNING { pending.get(..MAX_PENDING).unwrap_or(pending) } else { &[] };
        let reference =
            |pod: &ObjectKey| PodReference { namespace: pod.namespace.clone(), name: pod.name.clone() };
        Self {
            phase: phase.to_owned(),
            drain_progress: if drained { 100 } else { percent(gone, total) },
            last_update: self.last_update.clone(),
            last_error: error,
            pending_pods: pending.iter().map(|pod| pod.name.clone()).collect(),
            pending_pods_refs: pending.iter().map(reference).collect(),
            total_pods: if self.total_pods > 0 {
                self.total_pods
            } else {
                on_node.try_into().unwrap_or(i32::MAX)
            },
            eviction_pods: total,
        }
    }
}

/// Returns true when a drain took its requests back because another user uncordoned the node.
pub(super) fn is_withdrawn(drain: &NodeEvacuation) -> bool {
    let nodes = drain.status.iter().flat_map(|status| &status.nodes);
    nodes.into_iter().any(|node| node.phase == DrainedNodePhase::Withdrawn)
}

/// Returns the part of a total in percent. A drain that has not ended has at most 99.
fn percent(part: i32, total: i32) -> i32 {
    if total <= 0 {
        0
    } else {
        (i64::from(part) * 100 / i64::from(total)).clamp(0, 99).try_into().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn drain(status: &Value) -> NodeEvacuation {
        let spec = json!({"nodes": {"names": ["a"]}});
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec, "status": status})).unwrap()
    }

    fn condition(kind: &str) -> Value {
        json!([{"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn the_status_tells_the_progress_the_error_and_the_end() {
        let pods = json!({"total": 4, "gone": 1});
        let blocker = json!({"node": "a", "pod": "shop/db-0", "reason": "Refused", "since": "2026-01-01T00:00:00Z",
            "message": "it refuses"});
        let table = [
            (json!({}), "Running", 0, ""),
            (json!({"pods": pods, "verdict": "Slow", "message": "wait"}), "Running", 25, ""),
            (
                json!({"pods": pods, "verdict": "Stuck", "message": "stuck", "blockers": [blocker]}),
                "Running",
                25,
                "stuck; shop/db-0: it refuses",
            ),
            (json!({"pods": pods, "conditions": condition("Failed"), "message": "no"}), "Failed", 25, "no"),
            (json!({"pods": {"total": 0}, "conditions": condition("Drained")}), "Succeeded", 100, ""),
        ];
        for (status, phase, progress, error) in table {
            let found = Status::default().progress(&drain(&status), &[ObjectKey::new("shop", "db-0")], 19);
            let seen = (found.phase.as_str(), found.drain_progress, found.last_error.as_str());
            assert_eq!(seen, (phase, progress, error), "{status}");
            assert_eq!(found.pending_pods.len(), usize::from(phase == "Running"), "{status}");
            assert_eq!(found.total_pods, 19);
        }
    }

    #[test]
    fn the_pods_of_the_first_look_are_kept_and_the_lists_are_bounded() {
        let before = Status { total_pods: 7, ..Status::default() };
        let pending: Vec<_> = (0..5000).map(|number| ObjectKey::new("ns", format!("p-{number}"))).collect();
        let found = before.progress(&drain(&json!({})), &pending, 3);
        assert_eq!((found.total_pods, found.pending_pods_refs.len()), (7, MAX_PENDING));
    }

    #[test]
    fn a_status_that_cannot_be_read_counts_as_none() {
        let object = json!({"metadata": {"name": "nm"}, "status": {"phase": 5}});
        assert_eq!(Status::of(&serde_json::from_value(object).unwrap()), Status::default());
    }
}
