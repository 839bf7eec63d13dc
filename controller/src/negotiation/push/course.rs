//! The course of a question: its progress, and its failure.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::{address::AddressProblem, service::ServiceProblem, tokens::TokenError, transport::PostError};
use crate::cluster::CallError;

/// Progress of the posting of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// Canceled when the endpoint takes the question.
    pub(crate) sent: CancellationToken,
    /// The time at which an earlier attempt reached the endpoint, if one did.
    pub(crate) reached: Option<DateTime<Utc>>,
}

/// Failure of a question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    /// The Evacuation has no such responder, or no endpoint for it.
    #[error("responder {0} has no endpoint")]
    NoEndpoint(String),
    /// The pod is gone.
    #[error("pod {0} is gone")]
    PodGone(String),
    /// The pod has no address.
    #[error("pod {0} has no address")]
    NoAddress(String),
    /// The pod's address is not its own, and it did not opt in.
    #[error("pod {0} is on the host's network and its endpoint does not set allowHostNetwork")]
    HostNetwork(String),
    /// The pod's address is never asked.
    #[error("pod {pod} has {problem}, which is never asked: {address}")]
    Address {
        /// The pod's name.
        pod: String,
        /// The address.
        address: IpAddr,
        /// Kind of the address.
        problem: AddressProblem,
    },
    /// The responder's turn was over before the question could be posted.
    #[error("the turn of responder {0} is over")]
    Overtaken(String),
    /// The pod or the Service has another address than the one that was asked.
    #[error("{0} has another address by now")]
    Moved(String),
    /// The Service is not asked.
    #[error(transparent)]
    Service(#[from] ServiceProblem),
    /// There is nothing to show to the Service.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The endpoint did not answer.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The endpoint answered, and the API server takes that answer no more, or never does.
    #[error("the answer was not recorded")]
    Relay(#[source] CallError),
    /// The API could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl PushError {
    /// Returns true when the endpoint had the question, or could not get it by its owner's fault. The time
    /// to answer counts from then. An API that fails, or a pod that changes, does not cost the app its time.
    pub(crate) fn is_endpoints(&self) -> bool {
        match self {
            Self::NoEndpoint(_)
            | Self::NoAddress(_)
            | Self::HostNetwork(_)
            | Self::Address { .. }
            | Self::Service(_)
            | Self::Post(_)
            | Self::Relay(_) => true,
            Self::PodGone(_) | Self::Overtaken(_) | Self::Moved(_) | Self::Token(_) | Self::Call(_) => false,
        }
    }

    /// Returns true when the question reached the endpoint. One that broke the connection off has not read
    /// it, as far as anybody knows.
    pub(crate) fn has_reached(&self, course: &Course) -> bool {
        match self {
            Self::Post(PostError::Unreachable { source, .. }) => {
                course.sent.is_cancelled() && source.is_timeout()
            }
            Self::Post(_) | Self::Relay(_) => true,
            Self::PodGone(_) | Self::Overtaken(_) => false,
            // What failed afterwards is not the endpoint's affair.
            _ => course.sent.is_cancelled(),
        }
    }

    /// The endpoint replied, but the reply was no answer.
    pub(crate) fn is_bad_answer(&self) -> bool {
        matches!(self, Self::Relay(_))
            || matches!(self, Self::Post(error) if !matches!(error, PostError::Unreachable { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_cannot_be_used_is_told_from_an_endpoint_that_did_not_reply() {
        let url = || "http://10.0.0.1/".to_owned();
        let status = kube::core::Status::failure("no", "Invalid").with_code(422).boxed();
        let call = || CallError::Api { action: "x".to_owned(), source: kube::Error::Api(status.clone()) };
        let table = [
            (PushError::Relay(call()), true),
            (PushError::Post(PostError::TooLong { url: url() }), true),
            (PushError::NoAddress("p".to_owned()), false),
            (PushError::Call(call()), false),
        ];
        for (error, expected) in table {
            assert_eq!(error.is_bad_answer(), expected, "{error}");
        }
    }

    #[test]
    fn a_question_has_reached_an_endpoint_that_replied_or_took_it_before_something_else_failed() {
        let status = kube::core::Status::failure("no", "Invalid").with_code(422).boxed();
        let call = || CallError::Api { action: "x".to_owned(), source: kube::Error::Api(status.clone()) };
        let too_long = || PushError::Post(PostError::TooLong { url: "http://10.0.0.1/".to_owned() });
        let (unsent, sent) = (Course::default(), Course::default());
        sent.sent.cancel();
        let table = [
            (PushError::Relay(call()), true, true),
            (too_long(), true, true),
            (PushError::Call(call()), false, true),
            (PushError::Moved("service s".to_owned()), false, true),
            (PushError::PodGone("p".to_owned()), false, false),
            (PushError::Overtaken("self".to_owned()), false, false),
        ];
        for (error, before, after) in table {
            let found = (error.has_reached(&unsent), error.has_reached(&sent));
            assert_eq!(found, (before, after), "{error}");
        }
    }
}
