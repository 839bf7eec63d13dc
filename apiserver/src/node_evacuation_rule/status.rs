//! Updates of a rule's status by the controller: their bounds.

use evacuation_api::{MAX_DRAINED_NODES, MAX_MESSAGE_LENGTH, NodeEvacuationRuleStatus};
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

/// Returns every problem of a new status.
pub(super) fn validate_status(status: &NodeEvacuationRuleStatus) -> Vec<FieldError> {
    let nodes = FieldPath::new("status").child("nodes");
    let mut errors = Vec::new();
    if status.nodes.len() > MAX_DRAINED_NODES {
        let message = format!("must have at most {MAX_DRAINED_NODES} items, has {}", status.nodes.len());
        errors.push(FieldError { kind: FieldErrorKind::TooMany, field: nodes.clone(), message });
    }
    for (i, node) in status.nodes.iter().enumerate() {
        for (name, text) in [("message", &node.message), ("noticeProblem", &node.notice_problem)] {
            if text.as_ref().is_some_and(|text| text.len() > MAX_MESSAGE_LENGTH) {
                let message = format!("must have at most {MAX_MESSAGE_LENGTH} bytes");
                let field = nodes.index(i).child(name);
                errors.push(FieldError { kind: FieldErrorKind::TooLong, field, message });
            }
        }
    }
    errors
}
