//! Failures of patches, of decoding and of writing.

/// Reason for which a patch was not applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The patch is not one: 400.
    #[error("the patch is malformed: {message}")]
    Malformed {
        /// Description of the problem.
        message: String,
    },
    /// The patch has too many operations: 413.
    #[error("the allowed maximum operations in a JSON patch is {limit}, got {count}")]
    TooManyOperations {
        /// Number of its operations.
        count: usize,
        /// Maximum number of operations.
        limit: usize,
    },
    /// The `copy` operations of the patch would copy too much: 413.
    #[error("the copy operations of the JSON patch copy more than {limit} bytes")]
    CopiesTooMuch {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// A strategic merge patch has too many items in lists that are merged, or in `$retainKeys`: 413.
    #[error(
        "the allowed maximum items in merged lists of a strategic merge patch is {limit}, reached at {path}"
    )]
    TooManyItems {
        /// Path of the list, such as `spec.requesters`.
        path: String,
        /// Maximum number of items.
        limit: usize,
    },
    /// A strategic merge patch has many items to merge with an object that has many: 413.
    #[error("the allowed maximum item comparisons of a strategic merge patch is {limit}, reached at {path}")]
    TooManyComparisons {
        /// Path of the list, such as `spec.requesters`.
        path: String,
        /// Maximum number of comparisons.
        limit: usize,
    },
    /// A strategic merge patch does not fit the lists of the kind: 422.
    #[error("the strategic merge patch cannot merge {path}: {reason}")]
    Unmergeable {
        /// Path of the list, such as `spec.requesters`.
        path: String,
        /// Cause of the failure.
        reason: String,
    },
    /// The patch does not fit the object: a `test` failed, or a path does not exist. 422.
    #[error("operation {operation} of the JSON patch failed at {path:?}: {reason}")]
    Inapplicable {
        /// The index of the operation, from 0.
        operation: usize,
        /// The operation's path, as a JSON pointer.
        path: String,
        /// Cause of the failure.
        reason: String,
    },
}

/// Reason for which an object was not decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not JSON (or YAML).
    #[error("the body is malformed: {message}")]
    Malformed {
        /// Description of the problem, with the line and column.
        message: String,
    },
    /// A field is missing or has a wrong type.
    #[error("{}{message}", prefix(path))]
    WrongType {
        /// The field's path, such as `spec.requesters[0].name`; empty for the whole object.
        path: String,
        /// Value found and value expected.
        message: String,
    },
    /// There are unknown or duplicate fields, and the decoding is strict. The words are those of Kubernetes.
    #[error("strict decoding error: {}", findings.join(", "))]
    Strict {
        /// One for each field, such as `unknown field "spec.foo"`.
        findings: Vec<String>,
    },
}

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// Reason for which a value was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be written as YAML: {message}")]
pub struct EncodeError {
    /// Description of the problem.
    pub message: String,
}
