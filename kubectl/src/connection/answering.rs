//! A client that repeats requests for a bounded time while a server does not answer, and says so.
//!
//! kube's own retries are silent, last for minutes, and repeat writes that may have been carried out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use http::{Method, Request, Response, header::CONTENT_TYPE, request::Parts};
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use machinery_client::without_managed_fields;
use tokio::time::{Instant, sleep, timeout_at};
use tower::{BoxError, Service};

use super::{
    diagnosis::Diagnosis,
    failure::{Failure, Server},
    outages::Outages,
    warnings::warnings,
};

/// Time after which the command says that a server does not answer.
const SILENCE: Duration = Duration::from_secs(2);
/// Pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Bound of a request without a limit: no command waits for a year.
pub(super) const FOREVER: Duration = Duration::from_hours(24 * 365);

/// A client whose requests are repeated until their limit while a server does not answer.
///
/// # Guarantees
///
/// - No attempt begins after the limit, so that nothing is written once the command has failed.
/// - A write is repeated only when the server cannot have received it.
#[derive(Clone)]
pub(super) struct Answering {
    client: Client,
    limit: Duration,
    outages: Arc<Outages>,
    /// URL of the kube-apiserver.
    cluster: Arc<str>,
}

impl Answering {
    /// Wraps a client that makes no retries of its own.
    pub(super) fn new(client: Client, limit: Duration, outages: Arc<Outages>, cluster: &str) -> Self {
        Self { client, limit: limit.min(FOREVER), outages, cluster: cluster.into() }
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let server = Server::of(parts.uri.path());
        let last = Mutex::new(None);
        let attempts = std::pin::pin!(self.attempts(&parts, &body, &last));
        let reply = match select(attempts, std::pin::pin!(sleep(SILENCE))).await {
            Either::Left((reply, _)) => reply,
            Either::Right(((), attempts)) => {
                let announced = std::pin::pin!(self.announce(server, &last));
                match select(attempts, announced).await {
                    Either::Left((reply, _)) => reply,
                    Either::Right(((), attempts)) => attempts.await,
                }
            }
        };
        match reply {
            Ok(reply) => {
                self.outages.end(server);
                self.outages.warn(server, warnings(reply.headers()));
                Ok(reply)
            }
            Err(Failure::Foreign(error)) => Err(error.into()),
            Err(failure) => {
                let diagnosis = self.diagnosis(failure.server(server)).await;
                let is_write = parts.method != Method::GET;
                Ok(failure.into_reply(server, is_write, &diagnosis, &self.cluster))
            }
        }
    }

    /// Sends the request until there is a reply that is none of an outage, or no time for another attempt.
    async fn attempts(
        &self,
        parts: &Parts,
        body: &Bytes,
        last: &Mutex<Option<Failure>>,
    ) -> Result<Response<Body>, Failure> {
        let deadline = Instant::now() + self.limit;
        let mut pauses = pauses();
        loop {
            let attempt = Request::from_parts(parts.clone(), Body::from(body.clone()));
            let failure = match timeout_at(deadline, self.attempt(attempt)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Failure::Silent(self.limit)),
            };
            let asked_for = failure.pause().filter(|pause| !pause.is_zero());
            let pause = asked_for.or_else(|| pauses.next()).unwrap_or(LONGEST_PAUSE);
            let is_safe = parts.method == Method::GET || failure.was_not_received();
            if !failure.is_passing() || !is_safe || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            sleep(pause).await;
        }
    }

    /// Sends the request once, and receives the whole reply. Of a watch it receives the head.
    async fn attempt(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let asked = Server::of(request.uri().path());
        let reply = self.client.send(request).await.map_err(Failure::of_error)?;
        let reply = Failure::of_reply(reply, asked).await?;
        if is_watch {
            return Ok(reply);
        }
        let (head, body) = reply.into_parts();
        let body = body.collect().await.map_err(Failure::of_error)?.to_bytes();
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // Whoever may change an object can write managed fields that no typed decoder reads.
        let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
        let body = if is_json { without_managed_fields(&body).into() } else { body };
        Ok(Response::from_parts(head, Body::from(body)))
    }

    /// Says once for each outage that a server does not answer.
    async fn announce(&self, server: Server, last: &Mutex<Option<Failure>>) {
        let (server, deed) = {
            let last = last.lock().unwrap_or_else(PoisonError::into_inner);
            (last.as_ref().map_or(server, |failure| failure.server(server)), last.as_ref().map(Failure::deed))
        };
        if self.outages.is_known(server) {
            return;
        }
        let deed = deed.unwrap_or_else(|| format!("does not answer (no reply for {} s)", SILENCE.as_secs()));
        let diagnosis = self.diagnosis(server).await;
        self.outages.begin(diagnosis.server(server), diagnosis.line(server, &deed, &self.cluster));
    }

    async fn diagnosis(&self, server: Server) -> Diagnosis {
        match server {
            Server::EvacuationApi => Diagnosis::read(&self.client).await,
            Server::KubeApiserver => Diagnosis::default(),
        }
    }
}

impl Service<Request<Body>> for Answering {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests;
