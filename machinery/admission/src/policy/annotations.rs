//! Audit annotations of the policies that were evaluated for one write.

use std::collections::BTreeMap;

use machinery_server::AuditAnnotations;
use serde::Serialize;

/// Audit annotation with the validations that failed, of bindings with the action `Audit`.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Maximum number of failures in the annotation, as upstream.
const MAX_FAILURES: usize = 50;
/// Maximum size of the failures together, as JSON in bytes. Further ones are left out, so that there is room
/// for the annotations of others.
const MAX_FAILURE_BYTES: usize = 32 * 1024;
/// Maximum size of one annotation, in bytes.
const MAX_VALUE: usize = 10 * 1024;

/// A validation that failed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure<'a> {
    pub(super) message: &'a str,
    pub(super) policy: &'a str,
    pub(super) binding: &'a str,
    pub(super) expression_index: usize,
    pub(super) validation_actions: &'a [String],
}

/// Audit annotations of the policies that were evaluated for one write.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    /// Failures as JSON.
    failures: Vec<String>,
    /// Size of the failures.
    bytes: usize,
    /// Distinct values by key.
    values: BTreeMap<String, Vec<String>>,
}

impl Annotations {
    /// Adds a failure, unless there are too many.
    pub(super) fn add_failure(&mut self, failure: Failure<'_>) {
        if self.failures.len() >= MAX_FAILURES {
            return;
        }
        let Ok(failure) = serde_json::to_string(&failure) else { return };
        if self.bytes + failure.len() <= MAX_FAILURE_BYTES {
            self.bytes += failure.len();
            self.failures.push(failure);
        }
    }

    /// Adds a value. Distinct values of a key, which come from several bindings or params, are joined. Those
    /// that do not fit are left out.
    pub(super) fn add(&mut self, key: String, value: String) {
        let values = self.values.entry(key).or_default();
        let size: usize = values.iter().map(|value| value.len() + 2).sum();
        if !values.contains(&value) && (values.is_empty() || size + value.len() <= MAX_VALUE) {
            values.push(value);
        }
    }

    /// Publishes everything once.
    pub(super) fn publish(self, audit: &AuditAnnotations) {
        if !self.failures.is_empty() {
            audit.add(VALIDATION_FAILURE, format!("[{}]", self.failures.join(",")));
        }
        for (key, values) in self.values {
            audit.add(key, values.join(", "));
        }
    }
}
