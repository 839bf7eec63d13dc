//! Posting a question to an app's endpoint.

use std::{net::SocketAddr, time::Duration};

use evacuation_api::{Answer, EvacuationReview, ReviewAction, ReviewRequest, ReviewResponse};
use evacuation_protocol::EXCHANGE_SECONDS;
use reqwest::{Body, Client, ClientBuilder, header, redirect::Policy};
use rustls::ClientConfig;
use tokio_util::sync::CancellationToken;

use super::{
    received::{MAX_BODY, ReadError, Received},
    reply::read_reply,
    sent_body::SentBody,
};

/// Maximum time of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time of the whole exchange, the body included.
const TIMEOUT: Duration = Duration::from_secs(EXCHANGE_SECONDS.unsigned_abs());

/// Reason for which a question brought no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// The connection was refused, broke, or timed out.
    #[error("the endpoint {url} did not reply")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// Error of the transport.
        #[source]
        source: reqwest::Error,
    },
    /// The reply broke off.
    #[error("the reply of endpoint {url} broke off")]
    Cut {
        /// The endpoint.
        url: String,
        /// Error of the transport.
        #[source]
        source: reqwest::Error,
    },
    /// A redirect, which is never followed, or any other code but 2xx.
    #[error("the endpoint {url} replied with {reply}")]
    Code {
        /// The endpoint.
        url: String,
        /// Description of the reply.
        reply: String,
    },
    /// The reply is too long.
    #[error("the endpoint {url} replied with more than {MAX_BODY} bytes")]
    TooLong {
        /// The endpoint.
        url: String,
    },
    /// The reply is no EvacuationReview.
    #[error("the reply of endpoint {url} holds no answer that can be read: {problem}; it came with {reply}")]
    Unreadable {
        /// The endpoint.
        url: String,
        /// Error of the parser.
        problem: String,
        /// Description of the reply.
        reply: String,
    },
    /// The reply holds no answer.
    #[error("the endpoint {url} replied without an answer: {reply}")]
    NoAnswer {
        /// The endpoint.
        url: String,
        /// Description of the reply.
        reply: String,
    },
    /// The reply repeats another UID: it is the answer to another question, or of another pod.
    #[error("the endpoint {url} replied for {what} with UID {given:?} instead of {expected:?}")]
    WrongUid {
        /// The endpoint.
        url: String,
        /// `evacuation` or `pod`.
        what: &'static str,
        /// The UID of the reply.
        given: String,
        /// The UID of the question.
        expected: String,
    },
}

/// Destination of a question.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// The only address that is connected to.
    pub(crate) address: SocketAddr,
    /// The name of the Service at that address; none for a pod, which is asked by its address.
    pub(crate) host: Option<String>,
    /// The path, which starts with a slash.
    pub(crate) path: String,
    /// HTTPS settings for that host.
    pub(crate) https: Option<Https>,
}

/// HTTPS settings.
#[derive(Clone, Debug)]
pub(crate) struct Https {
    /// Trusted certificate authorities.
    pub(crate) config: ClientConfig,
    /// Token that is sent to a trusted endpoint, and that no other endpoint accepts.
    pub(crate) token: String,
}

impl Destination {
    /// Plain HTTP at an address.
    pub(crate) fn pod(address: SocketAddr, path: &str) -> Self {
        Self { address, host: None, path: path.to_owned(), https: None }
    }

    fn url(&self) -> String {
        let scheme = if self.https.is_some() { "https" } else { "http" };
        let path = self.path.trim_start_matches('/');
        match &self.host {
            Some(host) => format!("{scheme}://{host}:{}/{path}", self.address.port()),
            // As IPv6 has it: in brackets.
            None => format!("{scheme}://{}/{path}", self.address),
        }
    }
}

/// Posts questions: no redirects, no proxies, no names to resolve, bounded times and bodies.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: Client,
    timeout: Duration,
}

impl Transport {
    /// A transport with the timeouts of the protocol: 2 s to connect, 10 s for the whole.
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        Ok(Self { client: careful().build()?, timeout: TIMEOUT })
    }

    /// The client for a destination: one that knows a host by its address and trusts whom it says.
    fn client(&self, destination: &Destination) -> Result<Client, reqwest::Error> {
        let Some(host) = &destination.host else {
            return Ok(self.client.clone());
        };
        let client = careful().resolve(host, destination.address);
        match &destination.https {
            Some(https) => client.https_only(true).tls_backend_preconfigured(https.config.clone()).build(),
            None => client.build(),
        }
    }

    /// Posts a question. `None` is the reply to a cancellation, which any 2xx acknowledges. `sent` is
    /// canceled when the connection to the endpoint stands and takes the question.
    pub(crate) async fn post(
        &self,
        destination: &Destination,
        question: ReviewRequest,
        sent: &CancellationToken,
    ) -> Result<Option<ReviewResponse>, PostError> {
        let url = destination.url();
        let action = question.action;
        let expected = (question.evacuation.uid.clone(), question.pod.uid.clone());
        let unreachable = |source: reqwest::Error| PostError::Unreachable {
            url: url.clone(),
            source: source.without_url(),
        };
        // Objects of the API always serialise.
        let question = serde_json::to_vec(&EvacuationReview::ask(question)).unwrap_or_default();
        let mut request = self
            .client(destination)
            .map_err(unreachable)?
            .post(&url)
            .timeout(self.timeout)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::wrap(SentBody::new(question, sent.clone())));
        if let Some(https) = &destination.https {
            request = request.bearer_auth(&https.token);
        }
        let response = request.send().await.map_err(unreachable)?;
        if action == ReviewAction::Cancel && response.status().is_success() {
            return Ok(None);
        }
        let (received, body, end) = Received::read(response).await;
        let reply = received.to_string();
        let found = read_reply(&body, received.charset());
        let answer = match (found, end) {
            // A failure and consent do not go together: the more careful one counts.
            (Ok(Some(answer)), _) if received.code.is_success() || answer.answer != Answer::Accept => answer,
            _ if !received.code.is_success() => return Err(PostError::Code { url, reply }),
            (_, Some(ReadError::Broken(source))) if source.is_timeout() => return Err(unreachable(source)),
            (_, Some(ReadError::Broken(source))) => {
                return Err(PostError::Cut { url, source: source.without_url() });
            }
            (_, Some(ReadError::TooLong)) => return Err(PostError::TooLong { url }),
            (Err(problem), None) => return Err(PostError::Unreadable { url, problem, reply }),
            (Ok(_), None) => return Err(PostError::NoAnswer { url, reply }),
        };
        let uids = [("evacuation", &answer.evacuation_uid, expected.0), ("pod", &answer.pod_uid, expected.1)];
        for (what, given, expected) in uids {
            if *given != expected {
                return Err(PostError::WrongUid { url, what, given: given.clone(), expected });
            }
        }
        Ok(Some(answer))
    }
}

/// A client that goes nowhere else and waits for nobody for long.
fn careful() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        // A kept connection could outlive its pod, and the address be another pod's.
        .pool_max_idle_per_host(0)
        // A header that is not valid does not cost the app its answer.
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .user_agent(concat!("evacuation-controller/", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "transport_tls_tests.rs"]
mod tls_tests;
