//! Failures of reading a policy.

use std::path::PathBuf;

use machinery_merge::DecodeError;
use machinery_validation::FieldError;

/// Reason for which a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the audit policy {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The text is no policy, or has unknown fields.
    #[error("the audit policy cannot be decoded: {0}")]
    Decode(DecodeError),
    /// It is another kind of object.
    #[error("the audit policy must be a Policy of audit.k8s.io/v1, but is a {kind:?} of {api_version:?}")]
    Type {
        /// The `apiVersion` found.
        api_version: String,
        /// The `kind` found.
        kind: String,
    },
    /// Fields have values that are not allowed.
    #[error("the audit policy is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Invalid(Vec<FieldError>),
    /// It has no rules, so it would record nothing.
    #[error("the audit policy has no rules")]
    NoRules,
}
