//! Posting a question to an app's endpoint.

use std::{net::IpAddr, time::Duration};

use evacuation_api::{EvacuationReview, ReviewAction, ReviewRequest, ReviewResponse};
use reqwest::{Client, Response, StatusCode, header, redirect::Policy};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the whole exchange may take, the body included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest reply that is read, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Why a question brought no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// The connection was refused, broke, or timed out.
    #[error("the endpoint {url} did not reply")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What the transport said.
        #[source]
        source: reqwest::Error,
    },
    /// A redirect, which is never followed, or any other code but 2xx.
    #[error("the endpoint {url} replied with code {code}")]
    Code {
        /// The endpoint.
        url: String,
        /// The code.
        code: StatusCode,
    },
    /// The reply is not JSON by its own account.
    #[error("the endpoint {url} replied with content type {content_type:?} instead of application/json")]
    ContentType {
        /// The endpoint.
        url: String,
        /// What the reply said.
        content_type: String,
    },
    /// The reply is too long.
    #[error("the endpoint {url} replied with more than {MAX_BODY} bytes")]
    TooLong {
        /// The endpoint.
        url: String,
    },
    /// The reply is no EvacuationReview.
    #[error("the endpoint {url} replied with something else than an EvacuationReview: {problem}")]
    Unreadable {
        /// The endpoint.
        url: String,
        /// What the parser said.
        problem: String,
    },
    /// The reply holds no answer.
    #[error("the endpoint {url} replied without an answer")]
    NoAnswer {
        /// The endpoint.
        url: String,
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

/// Posts questions: no redirects, no proxies, no names to resolve, bounded times and bodies.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: Client,
    timeout: Duration,
}

impl Transport {
    /// A transport with the timeouts of the protocol: 2 s to connect, 10 s for the whole.
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            // A kept connection could outlive its pod, and the address be another pod's.
            .pool_max_idle_per_host(0)
            .user_agent(concat!("evacuation-controller/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self {
            client,
            timeout: TIMEOUT,
        })
    }

    /// Posts a question. `None` is the reply to a cancellation, which any 2xx acknowledges.
    pub(crate) async fn post(
        &self,
        address: IpAddr,
        port: u16,
        path: &str,
        question: ReviewRequest,
    ) -> Result<Option<ReviewResponse>, PostError> {
        let url = endpoint(address, port, path);
        let action = question.action;
        let expected = (question.evacuation.uid.clone(), question.pod.uid.clone());
        let unreachable = |source: reqwest::Error| PostError::Unreachable {
            url: url.clone(),
            source: source.without_url(),
        };
        let request = self
            .client
            .post(&url)
            .timeout(self.timeout)
            .header(header::ACCEPT, "application/json")
            .json(&EvacuationReview::ask(question));
        let response = request.send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(PostError::Code {
                url,
                code: response.status(),
            });
        }
        if action == ReviewAction::Cancel {
            return Ok(None);
        }
        check_content_type(&response, &url)?;
        let body = read_bounded(response, &url).await?;
        let review: EvacuationReview =
            serde_json::from_slice(&body).map_err(|problem| PostError::Unreadable {
                url: url.clone(),
                problem: problem.to_string(),
            })?;
        let Some(answer) = review.response else {
            return Err(PostError::NoAnswer { url });
        };
        let uids = [
            ("evacuation", &answer.evacuation_uid, expected.0),
            ("pod", &answer.pod_uid, expected.1),
        ];
        for (what, given, expected) in uids {
            if *given != expected {
                return Err(PostError::WrongUid {
                    url,
                    what,
                    given: given.clone(),
                    expected,
                });
            }
        }
        Ok(Some(answer))
    }
}

fn endpoint(address: IpAddr, port: u16, path: &str) -> String {
    let path = path.trim_start_matches('/');
    match address {
        IpAddr::V4(address) => format!("http://{address}:{port}/{path}"),
        IpAddr::V6(address) => format!("http://[{address}]:{port}/{path}"),
    }
}

fn check_content_type(response: &Response, url: &str) -> Result<(), PostError> {
    let content_type = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(PostError::ContentType {
            url: url.to_owned(),
            content_type: content_type.to_owned(),
        })
    }
}

async fn read_bounded(mut response: Response, url: &str) -> Result<Vec<u8>, PostError> {
    let mut body = Vec::new();
    loop {
        let chunk = response.chunk().await.map_err(|source| PostError::Unreachable {
            url: url.to_owned(),
            source: source.without_url(),
        })?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_BODY {
            return Err(PostError::TooLong { url: url.to_owned() });
        }
        body.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
