//! Refusals of writes, in the words of kube-apiserver.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use machinery_server::{AdmissionAttributes, ApiError};

/// Reason of the cause of a refusal by the plugin `ResourceQuota`, in `details.causes` of its status.
pub const QUOTA_CAUSE: &str = "ResourceQuota";

/// Refuses a write that no rule allows: `evacuations.evacuation.dev "a" is forbidden: WHY`.
pub(crate) fn forbidden(attributes: &AdmissionAttributes<'_>, why: &str) -> ApiError {
    ApiError::Refused(Box::new(forbidden_status(attributes, why)))
}

/// Refuses a write for which a quota has no room. kube-apiserver has the same words and no cause.
pub(crate) fn over_quota(attributes: &AdmissionAttributes<'_>, why: &str) -> ApiError {
    let mut status = forbidden_status(attributes, why);
    let cause = StatusCause {
        reason: Some(QUOTA_CAUSE.to_owned()),
        message: Some(why.to_owned()),
        ..StatusCause::default()
    };
    status.details.get_or_insert_default().causes = Some(vec![cause]);
    ApiError::Refused(Box::new(status))
}

/// Returns the status of [`forbidden`].
pub(crate) fn forbidden_status(attributes: &AdmissionAttributes<'_>, why: &str) -> Status {
    let AdmissionAttributes { group, resource, name, .. } = attributes;
    let qualified = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
    let name = if name.is_empty() { "Unknown" } else { name };
    Status {
        details: Some(StatusDetails {
            group: Some((*group).to_owned()).filter(|group| !group.is_empty()),
            kind: Some((*resource).to_owned()),
            name: Some(name.to_owned()),
            ..StatusDetails::default()
        }),
        ..failure(403, "Forbidden", format!("{qualified} {name:?} is forbidden: {why}"))
    }
}

/// Fails a write because something that it needs failed.
pub(crate) fn internal(why: &str) -> ApiError {
    let cause = StatusCause { message: Some(why.to_owned()), ..StatusCause::default() };
    let details = StatusDetails { causes: Some(vec![cause]), ..StatusDetails::default() };
    ApiError::Refused(Box::new(Status {
        details: Some(details),
        ..failure(500, "InternalError", format!("Internal error occurred: {why}"))
    }))
}

/// Refuses a request that cannot be carried out.
pub(crate) fn bad_request(message: String) -> ApiError {
    ApiError::Refused(Box::new(failure(400, "BadRequest", message)))
}

/// Refuses a request whose user has used up its share of admission.
pub(crate) fn too_many(what: &str) -> ApiError {
    let details = StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() };
    let message = format!("too many {what} are in progress; please try again later");
    ApiError::Refused(Box::new(Status { details: Some(details), ..failure(429, "TooManyRequests", message) }))
}

/// Refuses a request that did not end in time.
pub(crate) fn timeout() -> ApiError {
    let message = "Timeout: request did not complete within requested timeout".to_owned();
    ApiError::Refused(Box::new(failure(504, "Timeout", message)))
}

/// Returns the status of a denial by a webhook.
pub(crate) fn denied(webhook: &str, answer: Option<Status>) -> Status {
    let denied_by = format!("admission webhook {webhook:?} denied the request");
    let mut status = answer.unwrap_or_default();
    if status.code.is_none_or(|code| code < 400) {
        status.code = Some(400);
    }
    status.status = Some("Failure".to_owned());
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    status.message = Some(match given(&status.message).or_else(|| given(&status.reason)) {
        Some(why) => format!("{denied_by}: {why}"),
        None => format!("{denied_by} without explanation"),
    });
    status
}

fn failure(code: i32, reason: &str, message: String) -> Status {
    Status {
        code: Some(code),
        message: Some(message),
        reason: Some(reason.to_owned()),
        status: Some("Failure".to_owned()),
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_has_the_code_and_the_text_of_the_webhook() {
        let status = |code: i32, message: &str, reason: &str| Status {
            code: Some(code),
            message: Some(message.to_owned()),
            reason: Some(reason.to_owned()),
            ..Status::default()
        };
        let cases = [
            (Some(status(403, "not today", "Forbidden")), 403, ": not today"),
            (Some(status(200, "", "Busy")), 400, ": Busy"),
            (Some(status(0, "", "")), 400, " without explanation"),
            (None, 400, " without explanation"),
        ];
        for (answer, code, end) in cases {
            let denied = denied("a.b.c", answer);
            assert_eq!(denied.code, Some(code));
            let message = format!("admission webhook \"a.b.c\" denied the request{end}");
            assert_eq!(denied.message, Some(message));
            assert_eq!(denied.status.as_deref(), Some("Failure"));
        }
    }
}
