//! Replies and errors by which a server is known not to answer.

use std::{error::Error, io, time::Duration};

use evacuation_api::GROUP;
use http::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, Limited};
use kube::{
    client::Body,
    core::{Status, response::reason},
};

use super::diagnosis::Diagnosis;

/// Bytes of an error reply that are read.
const ERROR_BYTES: usize = 64 << 10;

/// A server that the command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    KubeApiserver,
    EvacuationApi,
}

impl Server {
    /// Returns the server of that path of the API.
    pub(super) fn of(path: &str) -> Self {
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        if group == Some(GROUP) { Self::EvacuationApi } else { Self::KubeApiserver }
    }

    /// Returns the name of the server in messages.
    pub(super) fn name(self, cluster: &str) -> String {
        match self {
            Self::EvacuationApi => "the evacuation API".to_owned(),
            Self::KubeApiserver => format!("the kube-apiserver {cluster}"),
        }
    }
}

/// Failure of an attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server replied that it cannot serve the request now.
    Unavailable {
        code: StatusCode,
        text: String,
        /// Time after which the server wants to be asked again.
        retry_after: Option<Duration>,
        /// True when the kube-apiserver replied in place of the evacuation API, which it did not reach.
        unreached: bool,
    },
    /// No connection, or a connection that broke.
    Broken { text: String, connected: bool },
    /// No reply within the limit.
    Silent(Duration),
    /// The kube-apiserver does not know the API group.
    NotServed,
    /// An error that tells nothing of the server, such as that of a credential plugin.
    Foreign(kube::Error),
}

impl Failure {
    /// Returns a reply that is none of an outage.
    ///
    /// # Errors
    ///
    /// Fails for a reply that tells of an outage.
    pub(super) async fn of_reply(reply: Response<Body>, asked: Server) -> Result<Response<Body>, Self> {
        let code = reply.status();
        // Another group that the cluster does not have says nothing of the evacuation API.
        let is_of_api = asked == Server::KubeApiserver || is_of_api(reply.headers());
        let unavailable = matches!(
            code,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        );
        if !unavailable && (code != StatusCode::NOT_FOUND || is_of_api) {
            return Ok(reply);
        }
        let (parts, body) = reply.into_parts();
        let body = Limited::new(body, ERROR_BYTES).collect().await.map(http_body_util::Collected::to_bytes);
        let text = String::from_utf8_lossy(&body.unwrap_or_default()).trim().to_owned();
        if !unavailable {
            return Err(Self::NotServed);
        }
        let status: Option<Status> = serde_json::from_str(&text).ok();
        let unreached = code == StatusCode::SERVICE_UNAVAILABLE
            && status.is_none()
            && (text == "service unavailable" || text.contains("dial tcp"));
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Self::Unavailable {
            code,
            text: status.map_or(text, |status| status.message),
            retry_after: retry_after.map(Duration::from_secs),
            unreached,
        })
    }

    /// Returns the failure behind an error of the client.
    pub(super) fn of_error(error: kube::Error) -> Self {
        let is_network = matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
            && !chain(&error).any(<dyn Error>::is::<rustls::Error>);
        if !is_network {
            return Self::Foreign(error);
        }
        let refused = chain(&error)
            .filter_map(|error| error.downcast_ref::<io::Error>())
            .any(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        let text = chain(&error).last().map(ToString::to_string).unwrap_or_default();
        Self::Broken { text, connected: !refused }
    }

    /// Returns the server to blame. Without a connection it is the kube-apiserver.
    pub(super) fn server(&self, asked: Server) -> Server {
        match self {
            Self::Broken { .. } => Server::KubeApiserver,
            _ => asked,
        }
    }

    /// Returns true when another attempt can succeed.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Broken { .. })
    }

    /// Returns true when the server that carries the request out cannot have received it.
    pub(super) fn was_not_received(&self) -> bool {
        match self {
            Self::Unavailable { code, unreached, .. } => *unreached || *code == StatusCode::TOO_MANY_REQUESTS,
            Self::Broken { connected, .. } => !connected,
            Self::Silent(_) => false,
            Self::NotServed | Self::Foreign(_) => true,
        }
    }

    /// Returns the pause that the server asks for.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns what the server does, and the cause in a few words.
    pub(super) fn deed(&self) -> String {
        match self {
            Self::Unavailable { code: StatusCode::TOO_MANY_REQUESTS, .. } => {
                format!("has no room for the request ({})", self.text())
            }
            _ => format!("does not answer ({})", self.text()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Unavailable { code, text, .. } if text.is_empty() => code.to_string(),
            Self::Unavailable { code, text, .. } => format!("{}: {text}", code.as_u16()),
            Self::Broken { text, .. } => text.clone(),
            Self::Silent(limit) => format!("no reply within {}", humantime::format_duration(*limit)),
            Self::NotServed => "404".to_owned(),
            Self::Foreign(error) => error.to_string(),
        }
    }

    /// Returns a reply in the form of the API that tells of the failure. The caller of the client sees it as
    /// an error of the API.
    pub(super) fn into_reply(
        self,
        asked: Server,
        is_write: bool,
        diagnosis: &Diagnosis,
        cluster: &str,
    ) -> Response<Body> {
        let message = if matches!(self, Self::NotServed) {
            diagnosis.not_served(cluster)
        } else {
            let line = diagnosis.line(self.server(asked), &self.deed(), cluster);
            match (is_write, self.was_not_received()) {
                (false, _) => line,
                (true, true) => format!("nothing was written, because {line}"),
                (true, false) => format!("it may have been carried out, but {line}"),
            }
        };
        // Not 404: to kube a 404 means that one object does not exist.
        let code = StatusCode::SERVICE_UNAVAILABLE;
        let status = Status::failure(&message, reason::SERVICE_UNAVAILABLE).with_code(code.as_u16());
        let mut reply = Response::new(Body::from(serde_json::to_vec(&status).unwrap_or_default()));
        *reply.status_mut() = code;
        reply
    }
}

/// Returns an error and its causes.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn is_of_api(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/"))
}
