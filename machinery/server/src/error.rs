//! Failures of a request, and their one mapping to `metav1.Status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use machinery_storage::StoreError;
use machinery_validation::FieldError;

/// Reason of a failure, in the words of `metav1.StatusReason`.
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
    /// 500, of a stored object that cannot be decoded.
    StorageReadError,
    /// 503.
    ServiceUnavailable,
    /// 504.
    Timeout,
}

impl Reason {
    /// The HTTP status code that goes with it.
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::StorageReadError => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Expired => "Expired",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Invalid => "Invalid",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::StorageReadError => "StorageReadError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
        }
    }
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
        /// Causes of the failure.
        causes: Vec<Cause>,
        /// Seconds after which the caller may retry.
        retry_after_seconds: Option<u32>,
    },
    /// Fields are wrong: 422 with a cause for each.
    #[error("{} of its fields are invalid", .0.len())]
    Invalid(Vec<FieldError>),
    /// A refusal with a `metav1.Status` of its own, such as a webhook's. The code is 400 or higher.
    #[error("{}", .0.message.as_deref().unwrap_or_default())]
    Refused(Box<Status>),
    /// Options in the parameters are wrong: 422 with a cause for each.
    #[error("{kind}.meta.k8s.io \"\" is invalid: {}", all_of(errors))]
    InvalidOptions {
        /// Kind of the options, such as `ListOptions`.
        kind: &'static str,
        /// Problems of the options.
        errors: Vec<FieldError>,
    },
    /// The state that a continue token names is forgotten: 410, with a token that continues in the newest
    /// state.
    #[error("the continue token is too old to display a consistent list result")]
    ContinueExpired {
        /// The other token.
        token: String,
    },
    /// The store failed.
    #[error("the storage failed")]
    Store(#[from] StoreError),
    /// Something that the server depends on failed; 500, the source goes to the log and not to the caller.
    #[error("{action} failed")]
    Internal {
        /// Action that failed.
        action: String,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ApiError {
    /// A failure with that reason and message, and no causes.
    pub fn status(reason: Reason, message: impl Into<String>) -> Self {
        Self::Status { reason, message: message.into(), causes: Vec::new(), retry_after_seconds: None }
    }

    /// A failure of something that the server depends on; the source goes to the log and not to the caller.
    pub fn internal(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Internal { action: action.into(), source: source.into() }
    }

    /// The same failure with the time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Self::Status { retry_after_seconds, .. } = &mut self {
            *retry_after_seconds = Some(seconds);
        }
        self
    }

    /// The reason of the failure. For the status of a webhook it is `Forbidden`, whatever the webhook says.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Status { reason, .. } => *reason,
            Self::Refused(_) => Reason::Forbidden,
            Self::Invalid(_) | Self::InvalidOptions { .. } => Reason::Invalid,
            Self::Internal { .. } => Reason::InternalError,
            Self::ContinueExpired { .. } | Self::Store(StoreError::Compacted { .. }) => Reason::Expired,
            Self::Store(StoreError::Future { .. }) => Reason::Timeout,
            Self::Store(StoreError::TooLarge { .. }) => Reason::RequestEntityTooLarge,
            Self::Store(StoreError::Unavailable { .. }) => Reason::ServiceUnavailable,
        }
    }

    /// The HTTP status code of the failure.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(status) => {
                let code = status.code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
                if (400..600).contains(&code) { code } else { Reason::BadRequest.code() }
            }
            error => error.reason().code(),
        }
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

/// Joins errors as upstream does: several in brackets.
pub(crate) fn all_of(errors: &[FieldError]) -> String {
    match errors {
        [error] => error.to_string(),
        errors => {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            format!("[{}]", all.join(", "))
        }
    }
}
