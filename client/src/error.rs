//! What can go wrong.

use std::time::Duration;

use kube::core::{Status, response::StatusCause};

/// Why a request for an evacuation failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API refused or could not be reached.
    #[error("{action} {namespace}/{name} failed")]
    Api {
        /// What was tried, such as `creating an evacuation of pod`.
        action: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API did not reply in time.
    #[error("{action} {namespace}/{name} had no reply within {} s: it may have been carried out", waited.as_secs())]
    NoReply {
        /// What was tried, such as `creating an evacuation of pod`.
        action: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The requester's entry could not be written because others kept changing the object.
    #[error("evacuation {namespace}/{name} changed too often")]
    Contended {
        /// The Evacuation's namespace.
        namespace: String,
        /// The Evacuation's name.
        name: String,
    },
    /// The Evacuation was removed before its end was seen.
    #[error("evacuation {namespace}/{name} was removed before its end was seen")]
    Removed {
        /// The Evacuation's namespace.
        namespace: String,
        /// The Evacuation's name.
        name: String,
    },
}

impl RequestError {
    /// Whether a withdrawal came too late: an eviction was posted whose outcome is not recorded yet (`EvictionInFlight`;
    /// when it fails, withdrawing works again), or one was accepted and the pod is on its way out (`EvictionAccepted`).
    pub fn is_too_late(&self) -> bool {
        ["EvictionInFlight", "EvictionAccepted"].into_iter().any(|reason| self.cause(reason).is_some())
    }

    /// Whether the pod that was to be asked is no longer there: none has its name, or another has taken it.
    pub fn is_pod_gone(&self) -> bool {
        self.cause("WrongPod").is_some()
            || self.cause("FieldValueNotFound").is_some_and(|cause| cause.field == "spec.target.pod.name")
    }

    /// Whether another writer was first, so that the same can be tried on the newer object. Every other conflict has a cause.
    pub(crate) fn is_lost_turn(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && causes(status).is_empty())
    }

    /// Whether the Evacuation that was to be written has ended or is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.cause("EvacuationFinished").is_some() || self.status().is_some_and(|status| status.code == 404)
    }

    /// The cause of that reason in what the API said.
    pub(crate) fn cause(&self, reason: &str) -> Option<&StatusCause> {
        causes(self.status()?).iter().find(|cause| cause.reason == reason)
    }

    fn status(&self) -> Option<&Status> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match source.as_ref() {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }
}

fn causes(status: &Status) -> &[StatusCause] {
    status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default()
}

/// Why an answer was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RespondError {
    /// The server refused the answer: the responder is not the active one, it accepted before, or it is not its
    /// place to answer. Trying again will not help.
    #[error("the answer to evacuation {evacuation} was refused")]
    Refused {
        /// The Evacuation, as `NAMESPACE/NAME`.
        evacuation: String,
        /// What the server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The question was withdrawn or lapsed before the answer was recorded.
    #[error("evacuation {evacuation} no longer waits for this answer")]
    Closed {
        /// The Evacuation, as `NAMESPACE/NAME`.
        evacuation: String,
    },
}

impl RespondError {
    /// Whether the server found a part of the answer invalid, such as its message.
    pub(crate) fn is_invalid(&self) -> bool {
        match self {
            Self::Refused { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if status.code == 422)
            }
            Self::Closed { .. } => false,
        }
    }
}
