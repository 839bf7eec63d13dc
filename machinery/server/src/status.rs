//! The one mapping of failures to `metav1.Status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};
use machinery_storage::StoreError;
use machinery_validation::FieldError;

use crate::{ApiError, Cause, Reason, error::all_of};

/// Object of a request, as far as it is known: the details of a `metav1.Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The API group.
    pub group: String,
    /// The kind, such as `Evacuation`.
    pub kind: String,
    /// The resource, such as `evacuations`.
    pub resource: String,
    /// The object's name; empty for collections.
    pub name: String,
}

impl Target {
    /// The resource with its group, such as `evacuations.evacuation.dev`.
    pub fn qualified_resource(&self) -> String {
        qualified(&self.resource, &self.group)
    }
}

/// Message of an expired continue token, in kube-apiserver's words.
const INCONSISTENT_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list \
    result. You can start a new list without the continue parameter, or use the continue token in this response to \
    retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
    that were created, modified, or deleted between the time the first chunk was returned and now may show up in the \
    list.";

/// The `metav1.Status` of a failure.
pub fn status(error: &ApiError, target: &Target) -> Status {
    if let ApiError::Refused(refusal) = error {
        let code = Some(i32::from(error.code()));
        return Status { code, ..Status::clone(refusal) };
    }
    let reason = error.reason();
    let options =
        |kind: &str| Target { group: "meta.k8s.io".to_owned(), kind: kind.to_owned(), ..Target::default() };
    let nothing = Target::default();
    let options = match error {
        ApiError::InvalidOptions { kind, .. } => Some(options(kind)),
        _ => None,
    };
    let named = if has_details(reason) && !is_apply_conflict(error) { target } else { &nothing };
    let named = options.as_ref().unwrap_or(named);
    let mut details = StatusDetails {
        group: given(&named.group),
        // As upstream, a failed validation names the kind and every other failure the resource.
        kind: given(if reason == Reason::Invalid { &named.kind } else { &named.resource }),
        name: given(&named.name),
        ..StatusDetails::default()
    };
    let continue_ = match error {
        ApiError::ContinueExpired { token } => Some(token.clone()),
        _ => None,
    };
    let message = match error {
        ApiError::Status { message, causes, retry_after_seconds, .. } => {
            details.causes = Some(causes.iter().map(cause).collect());
            details.retry_after_seconds = retry_after_seconds.and_then(|seconds| i32::try_from(seconds).ok());
            message.clone()
        }
        ApiError::Invalid(errors) => {
            details.causes = Some(errors.iter().map(field_cause).collect());
            invalid_message(errors, target)
        }
        ApiError::InvalidOptions { errors, .. } => {
            details.causes = Some(errors.iter().map(field_cause).collect());
            error.to_string()
        }
        ApiError::ContinueExpired { .. } => INCONSISTENT_CONTINUE.to_owned(),
        ApiError::Store(StoreError::Compacted { requested, oldest }) => {
            format!("too old resource version: {requested} ({oldest})")
        }
        ApiError::Store(StoreError::Future { requested, current }) => {
            let message = "Too large resource version".to_owned();
            let reason = Some("ResourceVersionTooLarge".to_owned());
            details.causes = Some(vec![StatusCause { message: Some(message), reason, field: None }]);
            details.retry_after_seconds = Some(1);
            format!("Timeout: Too large resource version: {requested}, current: {current}")
        }
        ApiError::Store(StoreError::TooLarge { size, .. }) => {
            format!("Request entity too large: the object has {size} bytes, more than the storage takes")
        }
        ApiError::Store(StoreError::Unavailable { .. }) => {
            details.retry_after_seconds = Some(1);
            "the server is currently unable to handle the request: the storage does not answer".to_owned()
        }
        ApiError::Refused(refusal) => refusal.message.clone().unwrap_or_default(),
        ApiError::Internal { action, .. } => format!("Internal error occurred: {action} failed"),
    };
    Status {
        code: Some(i32::from(reason.code())),
        details: Some(StatusDetails {
            causes: details.causes.filter(|causes| !causes.is_empty()),
            ..details
        })
        .filter(|details| *details != StatusDetails::default()),
        message: Some(message),
        metadata: ListMeta { continue_, ..ListMeta::default() },
        reason: Some(reason.as_str().to_owned()),
        status: Some("Failure".to_owned()),
    }
}

/// Returns true when a failure names the object in its details. As upstream, what is wrong with the request
/// itself does not.
fn has_details(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::BadRequest
            | Reason::Unauthorized
            | Reason::NotAcceptable
            | Reason::UnsupportedMediaType
            | Reason::RequestEntityTooLarge
            | Reason::Expired
            | Reason::Gone
    )
}

/// Returns true for an apply of fields that others own. As upstream, its details have only the causes.
fn is_apply_conflict(error: &ApiError) -> bool {
    let of_manager = |cause: &Cause| cause.reason == "FieldManagerConflict";
    matches!(error, ApiError::Status { causes, .. } if causes.iter().any(of_manager))
}

/// The `metav1.Status` of a deletion.
pub(crate) fn deleted(target: &Target, uid: Option<String>) -> Status {
    Status {
        details: Some(StatusDetails {
            group: given(&target.group),
            kind: given(&target.resource),
            name: given(&target.name),
            uid,
            ..StatusDetails::default()
        }),
        status: Some("Success".to_owned()),
        ..Status::default()
    }
}

/// A name with its group, such as `evacuations.evacuation.dev`.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

fn invalid_message(errors: &[FieldError], target: &Target) -> String {
    let what = format!("{} {:?} is invalid", qualified(&target.kind, &target.group), target.name);
    if errors.is_empty() { what } else { format!("{what}: {}", all_of(errors)) }
}

fn field_cause(error: &FieldError) -> StatusCause {
    StatusCause {
        reason: Some(error.kind.as_str().to_owned()),
        message: Some(error.body()),
        field: given(&error.field.to_string()),
    }
}

fn cause(cause: &Cause) -> StatusCause {
    StatusCause { reason: given(&cause.reason), message: given(&cause.message), field: given(&cause.field) }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use machinery_validation::FieldPath;

    use super::*;

    fn target() -> Target {
        Target {
            group: "evacuation.dev".into(),
            kind: "Evacuation".into(),
            resource: "evacuations".into(),
            name: "a".into(),
        }
    }

    fn unavailable() -> StoreError {
        StoreError::Unavailable { action: "commit", source: "secret of the transport".into() }
    }

    fn assert_status(error: &ApiError, code: i32, reason: &str, message: &str) {
        let status = status(error, &target());
        assert_eq!(status.code, Some(code), "{error:?}");
        assert_eq!(status.reason.as_deref(), Some(reason), "{error:?}");
        assert_eq!(status.message.as_deref(), Some(message), "{error:?}");
        assert_eq!(status.status.as_deref(), Some("Failure"), "{error:?}");
    }

    #[test]
    fn every_reason_has_its_code() {
        let cases = [
            (Reason::BadRequest, 400, "BadRequest"),
            (Reason::Unauthorized, 401, "Unauthorized"),
            (Reason::Forbidden, 403, "Forbidden"),
            (Reason::NotFound, 404, "NotFound"),
            (Reason::MethodNotAllowed, 405, "MethodNotAllowed"),
            (Reason::NotAcceptable, 406, "NotAcceptable"),
            (Reason::AlreadyExists, 409, "AlreadyExists"),
            (Reason::Conflict, 409, "Conflict"),
            (Reason::Gone, 410, "Gone"),
            (Reason::Expired, 410, "Expired"),
            (Reason::RequestEntityTooLarge, 413, "RequestEntityTooLarge"),
            (Reason::UnsupportedMediaType, 415, "UnsupportedMediaType"),
            (Reason::Invalid, 422, "Invalid"),
            (Reason::TooManyRequests, 429, "TooManyRequests"),
            (Reason::InternalError, 500, "InternalError"),
            (Reason::ServiceUnavailable, 503, "ServiceUnavailable"),
            (Reason::Timeout, 504, "Timeout"),
        ];
        for (reason, code, word) in cases {
            assert_status(&ApiError::status(reason, "m"), code, word, "m");
        }
    }

    #[test]
    fn wrong_fields_are_all_in_the_message() {
        let one = FieldError::required(&FieldPath::new("spec").child("x"), "");
        let message = "Evacuation.evacuation.dev \"a\" is invalid: spec.x: Required value";
        assert_status(&ApiError::Invalid(vec![one.clone()]), 422, "Invalid", message);
        let message =
            "Evacuation.evacuation.dev \"a\" is invalid: [spec.x: Required value, spec.x: Required value]";
        assert_status(&ApiError::Invalid(vec![one.clone(), one]), 422, "Invalid", message);
    }

    #[test]
    fn the_cause_of_an_internal_failure_is_not_sent_to_clients() {
        let cases: [(ApiError, i32, &str, &str); 5] = [
            (
                StoreError::Compacted { requested: 3, oldest: 7 }.into(),
                410,
                "Expired",
                "too old resource version: 3 (7)",
            ),
            (
                StoreError::Future { requested: 9, current: 7 }.into(),
                504,
                "Timeout",
                "Timeout: Too large resource version: 9, current: 7",
            ),
            (
                StoreError::TooLarge { key: "/secret/key".into(), size: 9 }.into(),
                413,
                "RequestEntityTooLarge",
                "Request entity too large: the object has 9 bytes, more than the storage takes",
            ),
            (
                unavailable().into(),
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request: the storage does not answer",
            ),
            (
                ApiError::internal("reading pod a", "secret"),
                500,
                "InternalError",
                "Internal error occurred: reading pod a failed",
            ),
        ];
        for (error, code, reason, message) in cases {
            assert_status(&error, code, reason, message);
        }
    }

    #[test]
    fn details_name_the_object_the_causes_and_when_to_retry() {
        let error = ApiError::status(Reason::Conflict, "m").with_cause("Busy", "why").retry_after(5);
        let details = status(&error, &target()).details.expect("details");
        assert_eq!(details.kind.as_deref(), Some("evacuations"));
        assert_eq!(details.group.as_deref(), Some("evacuation.dev"));
        assert_eq!(details.name.as_deref(), Some("a"));
        assert_eq!(details.retry_after_seconds, Some(5));
        let causes = details.causes.expect("causes");
        assert_eq!(causes[0].reason.as_deref(), Some("Busy"));
        assert_eq!(causes[0].message.as_deref(), Some("why"));

        let field = FieldPath::new("spec").child("x");
        let error = ApiError::Invalid(vec![FieldError::invalid(&field, "v", "is bad")]);
        let details = status(&error, &target()).details.expect("details");
        assert_eq!(details.kind.as_deref(), Some("Evacuation"));
        let causes = details.causes.expect("causes");
        assert_eq!(causes[0].reason.as_deref(), Some("FieldValueInvalid"));
        assert_eq!(causes[0].field.as_deref(), Some("spec.x"));
        assert_eq!(causes[0].message.as_deref(), Some("Invalid value: \"v\": is bad"));
    }

    #[test]
    fn an_outage_asks_to_come_back() {
        let details = status(&unavailable().into(), &target()).details.expect("details");
        assert_eq!(details.retry_after_seconds, Some(1));
    }
}
