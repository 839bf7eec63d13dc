//! Columns of EvacuationResponders for `kubectl get`.

use evacuation_api::{EvacuationResponder, EvacuationResponderSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use machinery_server::Column;
use serde_json::{Value, json};

/// Columns between NAME and AGE.
pub(super) const COLUMNS: &[Column] = &[
    column("Responder", "string", "Who is asked.", 0),
    column("Priority", "integer", "Higher is asked first.", 0),
    column("Transport", "string", "How the responder learns of the question.", 0),
    column("Selector", "string", "The pods for which the responder is asked.", 0),
    column("Timeout", "integer", "How long the responder may stay silent, in seconds.", 1),
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
pub(super) fn cells(object: &EvacuationResponder) -> Vec<Value> {
    let (spec, entry) = (&object.spec, object.spec.entry());
    vec![
        json!(entry.name),
        json!(entry.priority()),
        json!(transport(spec)),
        json!(selector(&spec.selector)),
        json!(entry.timeout_seconds()),
    ]
}

fn transport(spec: &EvacuationResponderSpec) -> String {
    match (&spec.http, &spec.service) {
        (Some(http), _) => format!("pod:{}", http.port),
        (None, Some(service)) => format!("service/{}:{}", service.name, service.port),
        (None, None) => "watch".to_owned(),
    }
}

/// Returns a selector as kubectl writes it.
fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .chain(selector.match_expressions.iter().flatten().map(expression))
        .collect();
    if parts.is_empty() { "<all>".to_owned() } else { parts.join(",") }
}

fn expression(requirement: &LabelSelectorRequirement) -> String {
    let key = &requirement.key;
    let values = requirement.values.as_deref().unwrap_or_default().join(",");
    match requirement.operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}
