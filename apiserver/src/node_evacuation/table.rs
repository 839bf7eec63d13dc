//! Columns and selectable fields of NodeEvacuations for `kubectl get`.

use chrono::SecondsFormat;
use evacuation_api::{DrainConditionType, NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::first_clause;
use machinery_server::Column;
use serde_json::{Value, json};

/// Fields for `--field-selector`, besides the name.
pub(super) const SELECTABLE_FIELDS: &[&str] = &[VERDICT];

const VERDICT: &str = "status.verdict";

/// Columns between NAME and AGE.
pub(super) const COLUMNS: &[Column] = &[
    column("Nodes", "string", "Name of the node, or the nodes that are done, of all.", 0),
    column("Verdict", "string", "State of the drain in one word.", 0),
    column("Gone", "string", "Pods that are gone, of those that are to move.", 0),
    column("Blocked", "integer", "Pods and nodes that something holds back: the blockers.", 0),
    column("Cordoned", "string", "Nodes that are cordoned, or were at the end of the drain, of all.", 0),
    column("Message", "string", "Reason of the verdict, as one clause.", 1),
    column("Requester", "string", "User who asked for the drain.", 1),
    column("Expected", "string", "Expected end of the drain.", 1),
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
pub(super) fn cells(drain: &NodeEvacuation) -> Vec<Value> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let expected = status.expected_completion.as_ref();
    vec![
        json!(nodes(drain, status)),
        json!(drain.verdict().as_str()),
        json!(format!("{}/{}", status.pods.gone, status.pods.total)),
        json!(status.held()),
        json!(cordoned(drain, status)),
        json!(first_clause(status.message.as_deref().unwrap_or_default())),
        json!(status.requester.as_ref().map_or("", |requester| &requester.user)),
        json!(expected.map_or_else(String::new, |time| time.0.to_rfc3339_opts(SecondsFormat::Secs, true))),
    ]
}

/// Returns the value of one of [`SELECTABLE_FIELDS`].
pub(super) fn field(drain: &NodeEvacuation, field: &str) -> String {
    match field {
        VERDICT => drain.verdict().as_str().to_owned(),
        _ => String::new(),
    }
}

fn nodes(drain: &NodeEvacuation, status: &NodeEvacuationStatus) -> String {
    match names(drain, status).as_slice() {
        [] if drain.spec.nodes.selector.is_some() && status.start_time.is_none() => "<selector>".to_owned(),
        [only] => (*only).to_owned(),
        names => format!("{}/{}", status.nodes_done(), names.len()),
    }
}

/// Returns the number of cordoned nodes, of all. That of a drain that has ended is a record: a node can have
/// been uncordoned since.
fn cordoned(drain: &NodeEvacuation, status: &NodeEvacuationStatus) -> String {
    let cordoned = status.nodes.iter().filter(|node| node.is_cordoned()).count();
    let when = if status.is_true(DrainConditionType::Finished) { " at the end" } else { "" };
    format!("{cordoned}/{}{when}", names(drain, status).len())
}

/// Returns the names of the nodes: those of the status, or those of the spec before the drain begins.
fn names<'a>(drain: &'a NodeEvacuation, status: &'a NodeEvacuationStatus) -> Vec<&'a str> {
    if status.nodes.is_empty() {
        return drain.spec.nodes.names.iter().map(String::as_str).collect();
    }
    status.nodes.iter().map(|node| node.name.as_str()).collect()
}
