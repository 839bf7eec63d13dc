//! Columns and selectable fields of Evacuations for `kubectl get`.

use evacuation_api::Evacuation;
use evacuation_protocol::{active_answer, continues_by, current_responder, is_finished, state_word};
use machinery_server::Column;
use serde_json::{Value, json};

/// Fields for `--field-selector`, besides name and namespace.
pub(crate) const SELECTABLE_FIELDS: &[&str] = &[POD_NAME, POD_UID, FINISHED];

const POD_NAME: &str = "spec.target.pod.name";
pub(crate) const POD_UID: &str = "spec.target.pod.uid";
const FINISHED: &str = "status.finished";

/// Columns between NAME and AGE.
pub(crate) const COLUMNS: &[Column] = &[
    column("Target", "The pod that is to move.", 0),
    column("State", "State of the evacuation.", 0),
    column("Answer", "Last answer of the active responder, or of the one asked last.", 0),
    column("Requesters", "Requesters that want the pod moved.", 1),
    column("Responder", "Active responder, or the one asked last.", 1),
    column(
        "Until",
        "Latest time of the next step: an answer is due, a delay ends, a deadline acts or a window opens.",
        1,
    ),
];

const fn column(name: &'static str, description: &'static str, priority: i32) -> Column {
    Column { name, column_type: "string", format: "", description, priority }
}

/// Returns the cells of [`COLUMNS`].
pub(crate) fn cells(object: &Evacuation) -> Vec<Value> {
    let answer = active_answer(object).map_or_else(String::new, |answer| format!("{answer:?}"));
    let requesters: Vec<&str> =
        object.spec.requesters.iter().map(|requester| requester.name.as_str()).collect();
    let responder = current_responder(object).map_or("", |responder| &responder.name);
    let until = continues_by(object)
        .map_or_else(String::new, |time| time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
    vec![
        json!(object.spec.target.pod.name),
        json!(state_word(object)),
        json!(answer),
        json!(requesters.join(",")),
        json!(responder),
        json!(until),
    ]
}

/// Returns the value of one of [`SELECTABLE_FIELDS`].
pub(crate) fn field(object: &Evacuation, field: &str) -> String {
    match field {
        POD_NAME => object.spec.target.pod.name.clone(),
        POD_UID => object.spec.target.pod.uid.clone().unwrap_or_default(),
        FINISHED => object.status.as_ref().is_some_and(is_finished).to_string(),
        _ => String::new(),
    }
}
