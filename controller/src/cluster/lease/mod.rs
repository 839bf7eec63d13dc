//! The lease: of several replicas one acts.
//!
//! # Guarantees
//!
//! A lease that was given back is taken within 2 s, one whose holder died within 17 s. A holder that cannot renew
//! stops acting 10 s after its last renewal, 5 s before anybody else can take the lease.

mod election;
mod leadership;

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use election::{Election, Step};
pub(crate) use leadership::{Leadership, NotLeading};

/// How often the holder renews.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How long after its last renewal the holder stops acting.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a candidate looks at the lease, and a holder repeats a renewal that failed.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// How long work waits that finds the lease overdue, or the API away, before it looks again. The lease may yet be renewed without
/// the term having ended, and nobody would wake it then.
pub(crate) const LEASE_PAUSE: Duration = Duration::from_secs(1);

/// Why the lease could not be read or written.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("lease {0} could not be read or written")]
    Api(String, #[source] kube::Error),
    #[error("lease {0} could not be read or written in time")]
    Timeout(String),
}

/// Stands for the lease, and holds it, until `stop`; then gives it back.
pub(crate) async fn hold_lease(
    api: Api<Lease>,
    name: String,
    identity: String,
    leadership: Leadership,
    stop: CancellationToken,
) {
    let mut holder = Holder { api, name, election: Election::new(identity), held: None, leadership };
    loop {
        // A slow API must not keep the lease from being given back in time.
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = holder.turn() => next,
        };
        tokio::select! {
            () = stop.cancelled() => break,
            () = sleep_until(next) => {}
        }
    }
    holder.release().await;
}

struct Holder {
    api: Api<Lease>,
    name: String,
    election: Election,
    /// The lease as this process last wrote it, and when that write began.
    held: Option<(Lease, Instant)>,
    leadership: Leadership,
}

impl Holder {
    /// One attempt to take or renew the lease. Returns when to make the next.
    async fn turn(&mut self) -> Instant {
        let began = Instant::now();
        let outcome = self.attempt(began).await;
        match outcome {
            Ok(true) => began + RENEW_EVERY,
            Ok(false) => {
                self.lose("another process holds the lease");
                // Candidates that look at the same moment would collide each time.
                began + RETRY_EVERY.mul_f64(rand::random_range(0.8..1.2))
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    lease = self.name,
                    "the lease could not be renewed or taken"
                );
                if self.held.as_ref().is_none_or(|(_, since)| since.elapsed() >= RENEW_DEADLINE) {
                    self.lose("the lease could not be renewed in time");
                }
                began + RETRY_EVERY
            }
        }
    }

    /// Whether this process holds the lease afterwards.
    async fn attempt(&mut self, began: Instant) -> Result<bool, LeaseError> {
        let mut known = self.held.as_ref().map(|(lease, _)| lease.clone());
        if known.is_none() {
            known = self.call(self.api.get_opt(&self.name)).await?;
        }
        match self.write(known, began).await {
            // Somebody else wrote it, or removed it, or the reply to our own last write was lost: what it says now decides.
            Err(LeaseError::Api(_, kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                let found = self.call(self.api.get_opt(&self.name)).await?;
                self.write(found, began).await
            }
            result => result,
        }
    }

    async fn write(&mut self, lease: Option<Lease>, began: Instant) -> Result<bool, LeaseError> {
        let written = match lease {
            None => {
                let lease = self.election.created(&self.name, Timestamp::now());
                self.call(self.api.create(&PostParams::default(), &lease)).await?
            }
            Some(lease) => match self.election.step(lease, began, Timestamp::now()) {
                Step::Wait => return Ok(false),
                Step::Write(lease) => {
                    self.call(self.api.replace(&self.name, &PostParams::default(), &lease)).await?
                }
            },
        };
        if self.held.is_none() {
            info!(lease = self.name, "this process leads");
        }
        self.held = Some((written, began));
        self.leadership.hold_until(began + RENEW_DEADLINE);
        Ok(true)
    }

    fn lose(&mut self, why: &'static str) {
        if self.held.take().is_some() {
            warn!(lease = self.name, why, "this process no longer leads");
        }
        self.leadership.lose();
    }

    async fn release(&mut self) {
        self.leadership.lose();
        let Some((lease, _)) = self.held.take() else {
            return;
        };
        let mut outcome = self.give_back(lease).await;
        if matches!(&outcome, Err(LeaseError::Api(_, kube::Error::Api(status))) if status.code == 409)
            && let Ok(Some(found)) = self.call(self.api.get_opt(&self.name)).await
            && self.election.holds(&found)
        {
            // Our own last write, which was cut off, was carried out.
            outcome = self.give_back(found).await;
        }
        match outcome {
            Ok(_) => info!(lease = self.name, "the lease was given back"),
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    lease = self.name,
                    "the lease was not given back"
                );
            }
        }
    }

    async fn give_back(&self, lease: Lease) -> Result<Lease, LeaseError> {
        let lease = Election::released(lease, Timestamp::now());
        self.call(self.api.replace(&self.name, &PostParams::default(), &lease)).await
    }

    async fn call<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, LeaseError> {
        match timeout(REQUEST_TIMEOUT, request).await {
            Ok(result) => result.map_err(|error| LeaseError::Api(self.name.clone(), error)),
            Err(_) => Err(LeaseError::Timeout(self.name.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tower_test::mock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_renewal_without_a_reply_does_not_keep_the_lease_from_being_given_back() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let api = Api::namespaced(Client::new(service, "default"), "ns");
        let stop = CancellationToken::new();
        let holder = tokio::spawn(hold_lease(
            api,
            "lease".to_owned(),
            "a".to_owned(),
            Leadership::standby(),
            stop.clone(),
        ));
        let mut unanswered = None;
        let mut released = Value::Null;
        let mut stopped = Instant::now();
        for turn in ["GET", "POST", "renewal", "release"] {
            let (request, send) = handle.next_request().await.unwrap();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = match turn {
                "GET" => (
                    404,
                    json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""}),
                ),
                "renewal" => {
                    unanswered = Some(send);
                    stopped = Instant::now();
                    stop.cancel();
                    continue;
                }
                _ => (200, body.clone()),
            };
            released = body;
            let response = http::Response::builder().status(code);
            send.send_response(response.body(Body::from(serde_json::to_vec(&answer).unwrap())).unwrap());
        }
        holder.await.unwrap();
        assert_eq!(released["spec"]["holderIdentity"], "");
        assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
        drop(unanswered);
    }
}
