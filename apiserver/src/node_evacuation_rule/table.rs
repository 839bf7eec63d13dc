//! Columns of NodeEvacuationRules for `kubectl get`.

use evacuation_api::{MarkedNodePhase, NodeEvacuationRule, NodeEvacuationRuleStatus};
use machinery_server::Column;
use serde_json::{Value, json};

/// Columns between NAME and AGE.
pub(super) const COLUMNS: &[Column] = &[
    column("Marks", "string", "First mark, and the number of the others.", 0),
    column("Marked", "integer", "Nodes with a mark.", 0),
    column("Draining", "integer", "Nodes that this rule drains now.", 0),
    column("Held", "integer", "Nodes with a mark whose drain is held back.", 0),
    column("Paused", "boolean", "True when the rule opens no drain.", 0),
    column("Unread", "integer", "Nodes whose notice carries no readable time.", 1),
    column("Drained", "string", "Nodes under the drains of all rules, of those that this rule allows.", 1),
    column("Message", "string", "Reason for which nodes are held back.", 1),
    column("Requester", "string", "User who created the rule.", 1),
];

const fn column(
    name: &'static str,
    column_type: &'static str,
    description: &'static str,
    priority: i32,
) -> Column {
    Column { name, column_type, format: "", description, priority }
}

/// Returns the cells of [`COLUMNS`].
pub(super) fn cells(rule: &NodeEvacuationRule) -> Vec<Value> {
    let empty = NodeEvacuationRuleStatus::default();
    let status = rule.status.as_ref().unwrap_or(&empty);
    let draining = status.nodes.iter().filter(|node| node.phase == MarkedNodePhase::Draining).count();
    let held = status.conditions.iter().find(|condition| condition.status == "True");
    vec![
        json!(marks(rule)),
        json!(status.nodes.len()),
        json!(draining),
        json!(status.nodes_held),
        json!(rule.spec.paused),
        json!(status.nodes_unread),
        json!(format!("{}/{}", status.nodes_drained, status.nodes_allowed)),
        json!(held.map_or("", |condition| &condition.message)),
        json!(status.requester.as_ref().map_or("", |requester| &requester.user)),
    ]
}

fn marks(rule: &NodeEvacuationRule) -> String {
    let marks = &rule.spec.marks;
    let first = marks.first().map(evacuation_api::NodeMarkPattern::text).unwrap_or_default();
    match marks.len() {
        0 | 1 => first,
        more => format!("{first}, and {} more", more - 1),
    }
}
