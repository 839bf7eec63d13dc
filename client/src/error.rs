//! What can go wrong.

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
