//! Requests to the API, and their errors.

use std::time::Duration;

use evacuation_api::Evacuation;
use kube::{Api, Client};
use tokio::time::timeout;

use super::NotLeading;

/// Maximum time of a request to the API. A request without an answer by then counts as failed. The API may
/// have carried it out.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Error of a request to the API.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API refused it or could not be reached.
    #[error("could not {action}")]
    Api {
        /// Action, with the object's name.
        action: String,
        /// Error of the API or of the connection.
        #[source]
        source: kube::Error,
    },
    /// The API did not answer in time.
    #[error("could not {action}: no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// Action, with the object's name.
        action: String,
    },
    /// Another process leads.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl CallError {
    /// Returns the Status with which the API refused the request.
    pub(crate) fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the code of the Status, or 0.
    pub(crate) fn code(&self) -> u16 {
        self.status().map_or(0, |status| status.code)
    }

    /// Returns true if the Status has a cause of that reason.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Returns the time after which the API asks for another attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let details = self.status().and_then(|status| status.details.as_ref())?;
        (details.retry_after_seconds > 0).then(|| Duration::from_secs(details.retry_after_seconds.into()))
    }
}

/// Returns the Evacuations of a namespace.
pub(crate) fn evacuations(client: &Client, namespace: &str) -> Api<Evacuation> {
    Api::namespaced(client.clone(), namespace)
}

/// Carries out a request with a timeout.
pub(crate) async fn call<T>(
    action: impl Into<String>,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(result) => result.map_err(|source| CallError::Api { action: action.into(), source }),
        Err(_) => Err(CallError::Timeout { action: action.into() }),
    }
}
