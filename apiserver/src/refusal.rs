//! The mapping from the protocol's errors to HTTP reasons, messages and causes. There is no other.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, GROUP};
use evacuation_protocol::{AnswerError, EditError, StatusError};
use machinery_server::{ApiError, Cause, Reason};
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

/// Retry time after an eviction in flight, in seconds: its outcome is recorded about as soon.
const IN_FLIGHT_RETRY_SECONDS: u32 = 1;

/// Returns a 403 for an object of this resource.
pub(crate) fn forbidden_of(plural: &str, name: &str, why: &str) -> ApiError {
    ApiError::status(Reason::Forbidden, format!("{} is forbidden: {why}", qualified(plural, name)))
}

/// Returns a 403 for an Evacuation.
pub(crate) fn forbidden(name: &str, why: &str) -> ApiError {
    forbidden_of(Evacuation::PLURAL, name, why)
}

/// Returns a 409 for an object of this resource, with one cause.
pub(crate) fn conflict_of(
    plural: &str,
    name: &str,
    why: &str,
    cause: Cause,
    retry_after_seconds: Option<u32>,
) -> ApiError {
    ApiError::Status {
        reason: Reason::Conflict,
        message: conflict_message(plural, name, why),
        causes: vec![cause],
        retry_after_seconds,
    }
}

/// Returns a 409 for an Evacuation, with one cause.
pub(crate) fn conflict(name: &str, why: &str, cause: Cause, retry_after_seconds: Option<u32>) -> ApiError {
    conflict_of(Evacuation::PLURAL, name, why, cause, retry_after_seconds)
}

/// Returns a 422 for one field.
pub(crate) fn invalid(kind: FieldErrorKind, field: &[&str], message: String) -> ApiError {
    let field = field.iter().fold(FieldPath::default(), |path, name| path.child(name));
    ApiError::Invalid(vec![FieldError { kind, field, message }])
}

/// Returns a 503: a service that the decision depends on did not reply. Its error goes to the log, not to the
/// caller.
pub(crate) fn unavailable(what: &str, error: &(dyn std::error::Error + 'static)) -> ApiError {
    tracing::warn!(error, "{what}");
    ApiError::Status {
        reason: Reason::ServiceUnavailable,
        message: what.to_owned(),
        causes: Vec::new(),
        retry_after_seconds: Some(1),
    }
}

/// Returns the rejection of an edit of the requesters, or of a deletion.
pub(crate) fn edit(name: &str, error: &EditError) -> ApiError {
    let why = error.to_string();
    if error.is_forbidden() {
        return forbidden(name, &why).with_cause(error.cause(), why);
    }
    let retry = matches!(error, EditError::EvictionInFlight { .. }).then_some(IN_FLIGHT_RETRY_SECONDS);
    let cause =
        Cause { reason: error.cause().to_owned(), message: why.clone(), field: error.field().to_owned() };
    conflict(name, &why, cause, retry)
}

/// Returns the rejection of an answer.
pub(crate) fn answer(name: &str, error: &AnswerError) -> ApiError {
    let why = error.to_string();
    let cause =
        Cause { reason: error.cause().to_owned(), message: why.clone(), field: error.field().to_owned() };
    if error.is_conflict() {
        conflict(name, &why, cause, error.retry_after_seconds())
    } else {
        rejected(name, &why, vec![cause])
    }
}

/// Returns the rejection of a status write, with all of its errors.
///
/// An error that waiting does not fix hides those that are only early: the controller must not wait for it.
pub(crate) fn status(name: &str, errors: &[StatusError], now: DateTime<Utc>) -> ApiError {
    let why = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let causes = errors
        .iter()
        .map(|error| Cause {
            reason: error.cause().to_owned(),
            message: error.to_string(),
            field: error.field(),
        })
        .collect();
    if !errors.iter().all(StatusError::is_conflict) {
        return rejected(name, &why, causes);
    }
    ApiError::Status {
        reason: Reason::Conflict,
        message: conflict_message(Evacuation::PLURAL, name, &why),
        causes,
        retry_after_seconds: errors.iter().filter_map(|error| error.retry_after_seconds(now)).max(),
    }
}

fn rejected(name: &str, why: &str, causes: Vec<Cause>) -> ApiError {
    ApiError::Status {
        reason: Reason::Invalid,
        message: format!("{}.{GROUP} {name:?} is invalid: {why}", Evacuation::KIND),
        causes,
        retry_after_seconds: None,
    }
}

fn conflict_message(plural: &str, name: &str, why: &str) -> String {
    format!("Operation cannot be fulfilled on {}: {why}", qualified(plural, name))
}

fn qualified(plural: &str, name: &str) -> String {
    if name.is_empty() { format!("{plural}.{GROUP}") } else { format!("{plural}.{GROUP} {name:?}") }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn parts(error: ApiError) -> (Reason, String, Vec<Cause>, Option<u32>) {
        match error {
            ApiError::Status { reason, message, causes, retry_after_seconds } => {
                (reason, message, causes, retry_after_seconds)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_of_another_is_forbidden_and_named() {
        let error = EditError::NotYours { requester: "a.example/x".to_owned(), owner: "jane".to_owned() };
        let (reason, message, causes, _) = parts(edit("db-0", &error));
        assert_eq!(reason, Reason::Forbidden);
        assert!(
            message.starts_with(r#"evacuations.evacuation.dev "db-0" is forbidden: requester a.example/x"#),
            "{message}"
        );
        assert_eq!(causes[0].reason, "RequesterOfAnother");
    }

    #[test]
    fn an_eviction_in_flight_is_a_conflict_that_passes() {
        let error = EditError::EvictionInFlight { requester: "a.example/x".to_owned() };
        let (reason, message, causes, retry) = parts(edit("db-0", &error));
        assert_eq!((reason, retry), (Reason::Conflict, Some(1)));
        assert!(
            message.starts_with("Operation cannot be fulfilled on evacuations.evacuation.dev \"db-0\": ")
        );
        assert_eq!(
            (causes[0].reason.as_str(), causes[0].field.as_str()),
            ("EvictionInFlight", "spec.requesters")
        );
    }

    #[test]
    fn what_is_wrong_with_a_status_comes_before_what_is_too_early() {
        let now = DateTime::UNIX_EPOCH;
        let early =
            StatusError::NotYet { what: "silence".to_owned(), until: now + TimeDelta::milliseconds(2500) };
        let wrong = StatusError::Responders { why: "they are fixed" };
        let (reason, _, causes, retry) = parts(status("db-0", std::slice::from_ref(&early), now));
        assert_eq!((reason, retry, causes[0].reason.as_str()), (Reason::Conflict, Some(3), "NotYet"));
        let (reason, message, causes, retry) = parts(status("db-0", &[early, wrong], now));
        assert_eq!((reason, retry, causes.len()), (Reason::Invalid, None, 2));
        assert!(message.starts_with("Evacuation.evacuation.dev \"db-0\" is invalid: "), "{message}");
    }

    #[test]
    fn an_answer_out_of_turn_is_a_conflict_and_an_impossible_one_invalid() {
        let late = AnswerError::Finished { reason: "Canceled".to_owned() };
        assert_eq!(parts(answer("db-0", &late)).0, Reason::Conflict);
        let early = AnswerError::NotStarted { responder: "x".to_owned() };
        let (reason, _, causes, retry) = parts(answer("db-0", &early));
        assert_eq!(
            (reason, causes[0].reason.as_str(), retry),
            (Reason::Conflict, "EvacuationNotStarted", Some(1))
        );
        let unknown = AnswerError::NoSuchResponder { responder: "x".to_owned() };
        let (reason, _, causes, _) = parts(answer("db-0", &unknown));
        assert_eq!((reason, causes[0].field.as_str()), (Reason::Invalid, "spec.responder"));
    }
}
