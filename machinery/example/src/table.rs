//! Columns of fleets for `kubectl get`.

use machinery_server::Column;
use serde_json::{Value, json};

use crate::Fleet;

/// Columns between NAME and AGE.
pub(crate) const COLUMNS: &[Column] = &[
    column("Depot", "string", "Depot of the vehicles.", 0),
    column("Desired", "integer", "Number of vehicles that are to be on the road.", 0),
    column("Current", "integer", "Number of vehicles on the road.", 0),
    column("Replacement", "string", "Order in which vehicles are replaced.", 1),
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
pub(crate) fn cells(fleet: &Fleet) -> Vec<Value> {
    let current = fleet.status.as_ref().and_then(|status| status.replicas);
    vec![json!(fleet.spec.depot), json!(fleet.spec.replicas), json!(current), json!(fleet.spec.replacement)]
}
