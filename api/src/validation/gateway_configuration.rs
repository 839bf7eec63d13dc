//! Validation of the gateway's configuration.

use std::collections::HashSet;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath, dns1123_label};

use crate::{CallerAct, CallerMatch, CallerRow, DeadlineAction, GatewayConfiguration};

/// Maximum number of rows.
const MAX_ROWS: usize = 256;
/// Maximum of every number of seconds: a year.
const MAX_SECONDS: u32 = 366 * 24 * 3600;
/// Maximum of the header Retry-After: client-go waits ten times for so long.
const MAX_RETRY_AFTER_SECONDS: u32 = 60;

/// Returns every problem of a file.
pub fn validate_gateway_configuration(file: &GatewayConfiguration) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut add =
        |kind, path: &FieldPath, message: String| problems.push(FieldError::new(kind, path, message));
    for (name, found, wanted) in [
        ("apiVersion", &file.api_version, GatewayConfiguration::api_version()),
        ("kind", &file.kind, GatewayConfiguration::KIND.to_owned()),
    ] {
        if *found != wanted {
            add(FieldErrorKind::Invalid, &FieldPath::new(name), format!("must be {wanted}, is {found:?}"));
        }
    }
    let callers = FieldPath::new("callers");
    if file.callers.len() > MAX_ROWS {
        add(FieldErrorKind::TooMany, &callers, format!("must have at most {MAX_ROWS} items"));
    }
    let mut names = HashSet::new();
    for (index, row) in file.callers.iter().enumerate() {
        let path = callers.index(index);
        for problem in dns1123_label(&row.name) {
            add(FieldErrorKind::Invalid, &path.child("name"), problem);
        }
        if !names.insert(&row.name) {
            add(
                FieldErrorKind::Duplicate,
                &path.child("name"),
                format!("another row is named {:?}", row.name),
            );
        }
        validate_row(row, &path, &mut add);
    }
    problems
}

fn validate_row(row: &CallerRow, path: &FieldPath, add: &mut impl FnMut(FieldErrorKind, &FieldPath, String)) {
    let seconds = [
        ("patienceSeconds", row.patience_seconds, 1, MAX_SECONDS),
        ("askAgainAfterSeconds", row.ask_again_after_seconds, 0, MAX_SECONDS),
        ("blockedPatienceSeconds", row.blocked_patience_seconds, 0, MAX_SECONDS),
        ("retryAfterSeconds", row.retry_after_seconds, 0, MAX_RETRY_AFTER_SECONDS),
        ("maxRetryAfterSeconds", row.max_retry_after_seconds, 0, MAX_RETRY_AFTER_SECONDS),
    ];
    for (name, value, min, max) in seconds {
        if !(min..=max).contains(&value) {
            add(
                FieldErrorKind::Invalid,
                &path.child(name),
                format!("must be from {min} to {max}, is {value}"),
            );
        }
    }
    if row.at_deadline == DeadlineAction::Delete {
        let message = "must be GiveUp or Evict: the gateway has no right to delete pods".to_owned();
        add(FieldErrorKind::NotSupported, &path.child("atDeadline"), message);
    }
    let (first, longest) = (row.retry_after_seconds, row.max_retry_after_seconds);
    if longest != 0 && (first == 0 || longest < first) {
        let message = "must be retryAfterSeconds or more, which must be 1 or more".to_owned();
        add(FieldErrorKind::Invalid, &path.child("maxRetryAfterSeconds"), message);
    }
    if row.act == CallerAct::Pass && row.matches.is_empty() {
        let message = "a row that lets calls pass must say which calls".to_owned();
        add(FieldErrorKind::Required, &path.child("matches"), message);
    }
    for (index, callers) in row.matches.iter().enumerate() {
        let path = path.child("matches").index(index);
        if *callers == CallerMatch::default() {
            let message = "must have a field; a row for every call leaves matches out".to_owned();
            add(FieldErrorKind::Required, &path, message);
        }
        if let Some(range) = callers.grace_period_seconds
            && (range.min < 0 || range.max.is_some_and(|max| max < range.min))
        {
            let message = "must begin at 0 or later and end after its beginning".to_owned();
            add(FieldErrorKind::Invalid, &path.child("gracePeriodSeconds"), message);
        }
    }
}
