//! What a request can fail with, and its one mapping to `metav1.Status`.

use machinery_storage::StoreError;
use machinery_validation::FieldError;

/// Why a request failed, in the words of `metav1.StatusReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 406.
    NotAcceptable,
    /// 409, on create.
    AlreadyExists,
    /// 409.
    Conflict,
    /// 410.
    Gone,
    /// 410, of a resourceVersion or continue token.
    Expired,
    /// 413.
    RequestEntityTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 422.
    Invalid,
    /// 429.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    ServiceUnavailable,
    /// 504.
    Timeout,
}

/// One cause of a failure: `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// CamelCase, for machines.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field's path; empty when no field is to blame.
    pub field: String,
}

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A failure with a reason of its own. The handler adds the object's name, kind and group.
    #[error("{message}")]
    Status {
        /// Decides the code, too.
        reason: Reason,
        /// For people; names the object.
        message: String,
        /// What exactly is wrong.
        causes: Vec<Cause>,
        /// When to try again, in seconds.
        retry_after_seconds: Option<u32>,
    },
    /// Fields are wrong: 422 with a cause for each.
    #[error("{} of its fields are invalid", .0.len())]
    Invalid(Vec<FieldError>),
    /// The store failed.
    #[error("the storage failed")]
    Store(#[from] StoreError),
    /// Something that the server depends on failed; 500, the source goes to the log and not to the caller.
    #[error("{action} failed")]
    Internal {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ApiError {
    /// A failure with that reason and message, and no causes.
    pub fn status(reason: Reason, message: impl Into<String>) -> Self {
        Self::Status { reason, message: message.into(), causes: Vec::new(), retry_after_seconds: None }
    }

    /// The same failure with one more cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>) -> Self {
        if let Self::Status { causes, .. } = &mut self {
            causes.push(Cause { reason: reason.to_owned(), message: message.into(), field: String::new() });
        }
        self
    }
}
