//! Why a request could not be authenticated or authorised.

use std::{error::Error, sync::Arc};

/// Why a request could not be authenticated or authorised.
///
/// The two variants differ in whose fault it is: a caller with bad credentials gets a 401 and should not try again
/// with the same ones, while an outage is a 503 and says nothing about the caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthError {
    /// The caller presented credentials, and they are not good: 401.
    #[error("the {credential} was not accepted: {reason}")]
    InvalidCredentials {
        /// Which of the caller's credentials, such as `client certificate`.
        credential: &'static str,
        /// Why not. For the log and the audit: upstream tells callers no more than `Unauthorized`.
        reason: String,
    },
    /// Something that the decision depends on did not answer, or not with sense: 503. Nothing is known of the caller.
    #[error("{action} failed")]
    Unavailable {
        /// What was tried, such as `the TokenReview`.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl AuthError {
    /// Credentials that are not good.
    pub(crate) fn invalid(credential: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidCredentials { credential, reason: reason.into() }
    }

    /// A dependency that failed.
    pub(crate) fn unavailable(action: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { action, source: Arc::new(source) }
    }

    /// Whether the failure is the caller's: answer 401 if so, else 503.
    pub fn is_callers_fault(&self) -> bool {
        matches!(self, Self::InvalidCredentials { .. })
    }
}

/// An error and what caused it, for the log: `a: b: c`. A cause whose text an outer error repeats is left out.
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
