//! Validation of the API server's negotiation settings.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use crate::{DeadlineAction, MAX_SETTINGS_SECONDS, NegotiationSettingsFile};

/// Returns every problem of a file.
pub fn validate_negotiation_settings(file: &NegotiationSettingsFile) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut add = |name: &str, message: String| {
        problems.push(FieldError::new(FieldErrorKind::Invalid, &FieldPath::new(name), message));
    };
    for (name, found, wanted) in [
        ("apiVersion", &file.api_version, NegotiationSettingsFile::api_version()),
        ("kind", &file.kind, NegotiationSettingsFile::KIND.to_owned()),
    ] {
        if *found != wanted {
            add(name, format!("must be {wanted}, is {found:?}"));
        }
    }
    for (name, value, least) in [
        ("defaultDeadlineSeconds", file.default_deadline_seconds, 1),
        ("maxDelaySeconds", file.max_delay_seconds, 0),
        ("maxTimeoutSeconds", file.max_timeout_seconds, 1),
    ] {
        if value.is_some_and(|value| !(least..=MAX_SETTINGS_SECONDS).contains(&value)) {
            add(name, format!("must be from {least} to {MAX_SETTINGS_SECONDS}"));
        }
    }
    // A default must not need rights that its requester does not need.
    if file.default_at_deadline == Some(DeadlineAction::Delete) {
        add("defaultAtDeadline", "must be Evict or GiveUp".to_owned());
    }
    problems
}
