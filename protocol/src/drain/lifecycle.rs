//! The lifecycle conditions of a node (KEP-5683), which administrators, kubelets and drains write.
//!
//! The API server does not record who wrote a condition. Its reason does: the controller writes the reasons
//! [`NODE_MARKED`] and [`NODE_UNMARKED`], and changes no condition with another one.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DRAIN_IN_PROGRESS, DRAINED, GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS, MAINTENANCE_IN_PROGRESS,
    MAINTENANCE_PLANNED, NODE_MARKED, NODE_UNMARKED,
};
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::surroundings::silent_since;
use crate::time::{after, told};

/// Types of the conditions that the controller writes where nobody else does.
pub const LIFECYCLE_CONDITIONS: [&str; 4] =
    [MAINTENANCE_PLANNED, MAINTENANCE_IN_PROGRESS, DRAIN_IN_PROGRESS, DRAINED];
/// Time for which a node is believed to shut down, in seconds. A graceful shutdown rarely takes longer, and a
/// condition that nobody takes back must not hold a drain for ever.
const LONGEST_SHUTDOWN_SECONDS: i64 = 600;

/// Returns true for a lifecycle condition that the controller wrote.
pub fn is_own_condition(condition: &NodeCondition) -> bool {
    let reason = condition.reason.as_deref().unwrap_or_default();
    LIFECYCLE_CONDITIONS.contains(&condition.type_.as_str())
        && (reason == NODE_MARKED || reason == NODE_UNMARKED)
}

/// Returns a condition of the node.
pub(super) fn condition<'n>(node: &'n Node, kind: &str) -> Option<&'n NodeCondition> {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.into_iter().find(|condition| condition.type_ == kind)
}

/// The time since which a node shuts down gracefully, and until which that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shutdown {
    pub(super) since: DateTime<Utc>,
    pub(super) until: DateTime<Utc>,
}

/// Returns the graceful shutdown of a node: its kubelet ends the pods, in an order and at times of its own.
/// `None` for a kubelet that does not report.
pub(super) fn shutdown(node: &Node, now: DateTime<Utc>) -> Option<Shutdown> {
    let known = condition(node, GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS)?;
    let since = told(known.last_transition_time.as_ref())?;
    let until = after(since, LONGEST_SHUTDOWN_SECONDS);
    let believed = known.status == "True" && now < until && silent_since(node).is_none();
    believed.then_some(Shutdown { since, until })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::at;

    fn node(conditions: &Value) -> Node {
        serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn a_condition_is_ours_by_type_and_reason() {
        for (kind, reason, expected) in [
            (MAINTENANCE_PLANNED, Some("NodeEvacuation"), true),
            (DRAINED, Some("NoNodeEvacuation"), true),
            (MAINTENANCE_PLANNED, Some("AdminRequested"), false),
            (DRAIN_IN_PROGRESS, Some("KubectlDrainStarted"), false),
            (DRAINED, None, false),
            ("Ready", Some("NodeEvacuation"), false),
        ] {
            let node = node(&json!([{"type": kind, "status": "True", "reason": reason}]));
            let found = condition(&node, kind).is_some_and(is_own_condition);
            assert_eq!(found, expected, "{kind} {reason:?}");
        }
    }

    #[test]
    fn a_shutdown_is_believed_for_a_time_and_from_a_kubelet_that_reports() {
        let kind = GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS;
        let of = |status: &str, ready: &str| {
            let time = at(0).to_rfc3339();
            node(&json!([
                {"type": kind, "status": status, "lastTransitionTime": time},
                {"type": "Ready", "status": ready, "lastTransitionTime": time},
            ]))
        };
        let (since, until) = (at(0), at(600));
        assert_eq!(shutdown(&of("True", "False"), at(599)), Some(Shutdown { since, until }));
        for (node, now) in [
            (of("True", "False"), at(600)),
            (of("True", "Unknown"), at(1)),
            (of("False", "True"), at(1)),
            (of("Unknown", "False"), at(1)),
            (node(&json!([])), at(1)),
        ] {
            assert_eq!(shutdown(&node, now), None, "{node:?} at {now}");
        }
    }
}
