//! Failures of authentication and authorisation.

use std::{error::Error, sync::Arc};

/// Failure of authentication or authorisation.
///
/// The variants tell apart the caller's fault and an outage. A caller with bad credentials gets a 401 and
/// should not retry with the same ones. An outage is a 503 and proves nothing about the caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthError {
    /// Invalid credentials: 401.
    #[error("the {credential} was not accepted: {reason}")]
    InvalidCredentials {
        /// Kind of credential, such as `client certificate`.
        credential: &'static str,
        /// Reason, for the log and the audit. As upstream, the caller only gets `Unauthorized`.
        reason: String,
    },
    /// A dependency of the decision did not answer, or not with sense: 503. Nothing is known of the caller.
    #[error("{action} failed")]
    Unavailable {
        /// Call that failed, such as `the TokenReview`.
        action: &'static str,
        /// Cause of the failure.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl AuthError {
    /// Creates the error for invalid credentials.
    pub(crate) fn invalid(credential: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidCredentials { credential, reason: reason.into() }
    }

    /// Creates the error for a failed dependency.
    pub(crate) fn unavailable(action: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { action, source: Arc::new(source) }
    }

    /// Returns true when the failure is the caller's, which gets a 401 and not a 503.
    pub fn is_callers_fault(&self) -> bool {
        matches!(self, Self::InvalidCredentials { .. })
    }
}

/// Renders an error and its causes for the log: `a: b: c`. A cause whose text an outer error repeats is left
/// out.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}
