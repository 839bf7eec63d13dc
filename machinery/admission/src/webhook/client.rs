//! HTTP clients of webhooks.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use moka::sync::Cache;
use reqwest::{
    Certificate, Client,
    header::{self, HeaderValue},
    redirect::Policy,
};

use super::{
    hook::{Address, ClientConfig},
    service::{ServiceError, Services},
    token::TokenError,
};

/// Maximum size of an answer, as of a request body.
const MAX_ANSWER: usize = 3 * 1024 * 1024;
/// Maximum number of clients that are kept.
const MAX_CLIENTS: u64 = 200;
/// Time after which an unused client is dropped, with its connections.
const IDLE: Duration = Duration::from_mins(5);
/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of an answer's body in a message.
const MAX_QUOTED: usize = 512;

/// HTTP clients of webhooks, one for each address and certificate authority. They follow no redirect, use no
/// proxy and present no credentials but a token for the webhook.
#[derive(Clone)]
pub(crate) struct Clients {
    services: Services,
    clients: Cache<Key, Client>,
}

/// Address of a webhook and the addresses behind its Service: each pair has a client of its own.
type Key = (ClientConfig, Vec<SocketAddr>);

/// A webhook could not be called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("clientConfig must have one of url and service")]
    Unclear,
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Token(#[from] Arc<TokenError>),
    #[error("the client cannot be made: {0}")]
    Client(String),
    #[error("Post {url:?}: {why}")]
    Unreachable { url: String, why: String },
    #[error("Post {url:?}: the server responded with the status code {code}: {body}")]
    Code { url: String, code: u16, body: String },
    #[error("Post {url:?}: the answer has more than {MAX_ANSWER} bytes")]
    TooLong { url: String },
}

impl Clients {
    pub(crate) fn new(services: kube::Client) -> Self {
        let clients = Cache::builder().max_capacity(MAX_CLIENTS).time_to_idle(IDLE).build();
        Self { services: Services::new(services), clients }
    }

    /// Posts a question and returns the answer's body. Where the connection ends without an answer, posts it
    /// once more over a new one: a webhook may close an idle connection just when a question is sent over it,
    /// and the same question may be put twice (`sideEffects` is `None` or `NoneOnDryRun`).
    pub(crate) async fn post(
        &self,
        config: &ClientConfig,
        authorization: Option<HeaderValue>,
        question: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, PostError> {
        let (base, host, addresses) = match &config.address {
            Address::Unclear => return Err(PostError::Unclear),
            Address::Url(url) => (url.clone(), None, Vec::new()),
            Address::Service { namespace, name, port, path } => {
                let host = format!("{name}.{namespace}.svc");
                let addresses = self.services.resolve(namespace, name, *port).await?;
                let path = path.trim_start_matches('/');
                (format!("https://{host}:{port}/{path}"), Some(host), addresses)
            }
        };
        let separator = if base.contains('?') { '&' } else { '?' };
        let url = format!("{base}{separator}timeout={}s", timeout.as_secs());
        let key = (config.clone(), addresses);
        let unreachable = |error: reqwest::Error| PostError::Unreachable {
            url: url.clone(),
            why: if error.is_timeout() {
                "context deadline exceeded".to_owned()
            } else {
                causes(&error.without_url())
            },
        };
        let client = self.client(&key, host.as_deref())?;
        let mut request = client
            .post(&url)
            .timeout(timeout)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(question);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.build().map_err(unreachable)?;
        let again = request.try_clone();
        let mut sent = client.execute(request).await;
        if let Some(again) = again.filter(|_| sent.as_ref().is_err_and(is_cut_off)) {
            self.clients.invalidate(&key);
            sent = self.client(&key, host.as_deref())?.execute(again).await;
        }
        let mut response = sent.map_err(unreachable)?;
        let code = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(PostError::TooLong { url: url.clone() });
            }
            body.extend_from_slice(&chunk);
        }
        if !code.is_success() {
            let quoted = body.get(..MAX_QUOTED).unwrap_or(&body);
            let body = String::from_utf8_lossy(quoted).into_owned();
            return Err(PostError::Code { url: url.clone(), code: code.as_u16(), body });
        }
        Ok(body)
    }

    fn client(&self, key: &Key, host: Option<&str>) -> Result<Client, PostError> {
        if let Some(client) = self.clients.get(key) {
            return Ok(client);
        }
        let failed = |error: reqwest::Error| PostError::Client(causes(&error));
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .https_only(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("machinery-admission/", env!("CARGO_PKG_VERSION")));
        let (config, addresses) = key;
        if !config.ca.is_empty() {
            builder = builder.tls_certs_only(Certificate::from_pem_bundle(&config.ca).map_err(failed)?);
        }
        if let Some(host) = host {
            builder = builder.resolve_to_addrs(host, addresses);
        }
        let client = builder.build().map_err(failed)?;
        self.clients.insert(key.clone(), client.clone());
        Ok(client)
    }
}

/// Returns true when a connection was made and ended before an answer came.
fn is_cut_off(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

/// Returns an error with its causes: reqwest's own text says little.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
