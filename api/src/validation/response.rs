//! Validation of the EvacuationResponse.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use super::text::{Errors, MAX_DELAY_SECONDS};
use crate::{Answer, EvacuationResponse, SELF_RESPONDER};

/// Returns every problem of an answer.
pub fn validate_response(response: &EvacuationResponse) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &response.spec;
    let path = FieldPath::new("spec");

    if let Some(name) = spec.responder.as_deref().filter(|name| *name != SELF_RESPONDER) {
        errors.qualified_name(path.child("responder"), name);
    }
    for (field, uid) in [("evacuationUid", &spec.evacuation_uid), ("podUid", &spec.pod_uid)] {
        if uid.as_ref().is_some_and(|uid| uid.is_empty() || uid.len() > 128) {
            errors.invalid(path.child(field), "a UID has 1 to 128 bytes");
        }
    }
    match (spec.answer, spec.acknowledge_cancellation) {
        (None, false) => errors.add(
            FieldErrorKind::Required,
            path.child("answer"),
            "one of answer and acknowledgeCancellation is required",
        ),
        (Some(_), true) => errors.add(
            FieldErrorKind::Forbidden,
            path.child("acknowledgeCancellation"),
            "must not stand beside an answer",
        ),
        _ => {}
    }

    let delay = path.child("delaySeconds");
    match (spec.answer, spec.delay_seconds) {
        (Some(Answer::Delay), None) => errors.add(FieldErrorKind::Required, delay, "Delay needs its length"),
        (Some(Answer::Delay), seconds) => errors.within(delay, seconds, 1, MAX_DELAY_SECONDS),
        (_, Some(_)) => errors.add(FieldErrorKind::Forbidden, delay, "is for Delay only"),
        (_, None) => {}
    }
    let retry = path.child("retryAfterSeconds");
    match (spec.answer, spec.retry_after_seconds) {
        (Some(Answer::Refuse), seconds) => errors.within(retry, seconds, 1, MAX_DELAY_SECONDS),
        (_, Some(_)) => errors.add(FieldErrorKind::Forbidden, retry, "is for Refuse only"),
        (_, None) => {}
    }
    errors.reason(path.child("reason"), spec.reason.as_deref());
    errors.message(path.child("message"), spec.message.as_deref());
    errors.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn each_answer_takes_what_belongs_to_it_and_nothing_else() {
        let table: &[(Value, &[&str])] = &[
            (json!({"answer": "Accept"}), &[]),
            (json!({"answer": "Accept", "responder": "self", "reason": "Ready", "message": "go"}), &[]),
            (json!({"answer": "Accept", "responder": "db.acme.io/failover"}), &[]),
            (json!({"answer": "Accept", "responder": "failover"}), &["Invalid spec.responder"]),
            (json!({"answer": "Accept", "delaySeconds": 3}), &["Forbidden spec.delaySeconds"]),
            (json!({"answer": "Accept", "retryAfterSeconds": 3}), &["Forbidden spec.retryAfterSeconds"]),
            (json!({"answer": "Delay"}), &["Required spec.delaySeconds"]),
            (json!({"answer": "Delay", "delaySeconds": 30}), &[]),
            (json!({"answer": "Delay", "delaySeconds": 0}), &["Invalid spec.delaySeconds"]),
            (json!({"answer": "Delay", "delaySeconds": -1}), &["Invalid spec.delaySeconds"]),
            (
                json!({"answer": "Delay", "delaySeconds": MAX_DELAY_SECONDS + 1}),
                &["Invalid spec.delaySeconds"],
            ),
            (json!({"answer": "Delay", "delaySeconds": i64::MAX}), &["Invalid spec.delaySeconds"]),
            (
                json!({"answer": "Delay", "delaySeconds": 1, "retryAfterSeconds": 1}),
                &["Forbidden spec.retryAfterSeconds"],
            ),
            (json!({"answer": "Refuse"}), &[]),
            (json!({"answer": "Refuse", "retryAfterSeconds": 600}), &[]),
            (json!({"answer": "Refuse", "retryAfterSeconds": 0}), &["Invalid spec.retryAfterSeconds"]),
            (json!({"answer": "Refuse", "delaySeconds": 1}), &["Forbidden spec.delaySeconds"]),
            (json!({"acknowledgeCancellation": true}), &[]),
            (json!({"acknowledgeCancellation": true, "delaySeconds": 1}), &["Forbidden spec.delaySeconds"]),
            (
                json!({"acknowledgeCancellation": true, "answer": "Accept"}),
                &["Forbidden spec.acknowledgeCancellation"],
            ),
            (json!({}), &["Required spec.answer"]),
            (
                json!({"evacuationUid": "", "podUid": "", "reason": "no", "message": "\u{0}"}),
                &[
                    "Invalid spec.evacuationUid",
                    "Invalid spec.podUid",
                    "Required spec.answer",
                    "Invalid spec.reason",
                    "Invalid spec.message",
                ],
            ),
        ];
        for (spec, expected) in table {
            let response = EvacuationResponse::new(serde_json::from_value(spec.clone()).unwrap());
            let found: Vec<_> =
                validate_response(&response).iter().map(|e| format!("{:?} {}", e.kind, e.field)).collect();
            assert_eq!(found, *expected, "{spec}");
        }
    }
}
