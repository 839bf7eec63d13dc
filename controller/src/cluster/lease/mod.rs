//! The lease: of several replicas one acts.
//!
//! # Guarantees
//!
//! A lease that was given back is taken within 2 s, one whose holder died within 17 s. A holder that cannot
//! renew stops acting 10 s after its last renewal, 5 s before anybody else can take the lease. A holder that
//! cannot watch says so in an annotation of the lease.

mod election;
mod leadership;
mod writer;

use std::{sync::Arc, time::Duration};

use evacuation_api::Blindness;
use evacuation_protocol::lease_worked;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::api::{Api, PostParams};
use machinery_client::ServerClock;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use election::{Election, Step};
pub(crate) use leadership::{Leadership, NotLeading};
pub(crate) use writer::Writer;

/// Pause between two renewals by the holder.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Time after its last renewal at which the holder stops acting.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause of a candidate between two looks at the lease, and of a holder before it repeats a renewal that
/// failed.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Maximum time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause of work that finds the lease overdue, or the API away, before it looks again. The lease may yet be
/// renewed without the term having ended, and nobody would wake it then.
pub(crate) const LEASE_PAUSE: Duration = Duration::from_secs(1);

/// Failure to read or write the lease.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("lease {0} could not be read or written")]
    Api(String, #[source] kube::Error),
    #[error("lease {0} could not be read or written in time")]
    Timeout(String),
}

/// Source of what the holder says in its lease that it cannot watch, by what the lease says so far.
pub(crate) type Sight = Box<dyn Fn(Option<Blindness>) -> Option<Blindness> + Send + Sync>;

/// Stands for the lease, and holds it, until `stop`; then gives it back.
pub(crate) async fn hold_lease(
    api: Api<Lease>,
    name: String,
    identity: String,
    leadership: Leadership,
    clock: Arc<ServerClock>,
    sight: Sight,
    stop: CancellationToken,
) {
    let election = Election::new(identity);
    let mut holder = Holder { api, name, election, held: None, leadership, clock, sight };
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
    /// The clock of `renewTime`: that of the API server, so that a successor on another machine can compare
    /// it.
    clock: Arc<ServerClock>,
    sight: Sight,
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

    /// Returns true when this process holds the lease afterwards.
    async fn attempt(&mut self, began: Instant) -> Result<bool, LeaseError> {
        let mut known = self.held.as_ref().map(|(lease, _)| lease.clone());
        if known.is_none() {
            known = self.call(self.api.get_opt(&self.name)).await?;
        }
        match self.write(known, began).await {
            // Somebody else wrote it, or removed it, or the reply to our own last write was lost: what it
            // says now decides.
            Err(LeaseError::Api(_, kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                let found = self.call(self.api.get_opt(&self.name)).await?;
                self.write(found, began).await
            }
            result => result,
        }
    }

    async fn write(&mut self, lease: Option<Lease>, began: Instant) -> Result<bool, LeaseError> {
        let now = self.now();
        if self.held.is_none() && !lease.as_ref().is_some_and(|lease| self.election.holds(lease)) {
            self.leadership.set_predecessor(lease.as_ref().and_then(lease_worked));
        }
        let exists = lease.is_some();
        let recorded = lease.as_ref().and_then(Blindness::of_last);
        let mut lease = match lease {
            None => self.election.created(&self.name, now),
            Some(lease) => match self.election.step(lease, began, now) {
                Step::Wait => return Ok(false),
                Step::Write(lease) => *lease,
            },
        };
        Blindness::write((self.sight)(recorded).as_ref(), &mut lease.metadata);
        let parameters = PostParams::default();
        let written = if exists {
            self.call(self.api.replace(&self.name, &parameters, &lease)).await?
        } else {
            self.call(self.api.create(&parameters, &lease)).await?
        };
        if self.held.is_none() {
            info!(lease = self.name, "this process leads");
        }
        self.held = Some((written, began));
        self.leadership.hold_until(began + RENEW_DEADLINE);
        Ok(true)
    }

    /// The API server's time, as a lease has it.
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.clock.now().timestamp_micros()).unwrap_or_else(|_| Timestamp::now())
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
        let lease = Election::released(lease, self.now());
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
    use chrono::{DateTime, Utc};
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
            Arc::default(),
            Box::new(|_| None),
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

    /// Takes a lease that reads so, and returns the renewal that the new leader takes for its predecessor's
    /// last.
    async fn taken(mut lease: Value, identity: &str) -> Option<DateTime<Utc>> {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let api = Api::namespaced(Client::new(service, "default"), "ns");
        let (leadership, stop) = (Leadership::standby(), CancellationToken::new());
        let holder = tokio::spawn(hold_lease(
            api,
            "lease".to_owned(),
            identity.to_owned(),
            leadership.clone(),
            Arc::default(),
            Box::new(|_| None),
            stop.clone(),
        ));
        let mut leads = leadership.subscribe();
        let server = tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                if request.method() != http::Method::GET {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    lease = serde_json::from_slice(&body).unwrap();
                }
                send.send_response(http::Response::new(Body::from(lease.to_string().into_bytes())));
            }
        });
        leads.wait_for(|leads| *leads).await.unwrap();
        let predecessor = leadership.predecessor();
        stop.cancel();
        holder.await.unwrap();
        server.await.unwrap();
        predecessor
    }

    #[tokio::test(start_paused = true)]
    async fn rule_9_a_new_leader_knows_when_the_one_before_it_last_renewed() {
        let lease = |holder: &str| {
            json!({"metadata": {"name": "lease"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
                   "renewTime": "2026-01-01T00:00:00.250000Z"}})
        };
        let renewed = DateTime::from_timestamp_millis(1_767_225_600_250);
        assert_eq!(taken(lease("b"), "a").await, renewed, "it died");
        assert_eq!(taken(lease(""), "a").await, renewed, "it gave the lease back");
        assert_eq!(taken(lease("a"), "a").await, None, "the reply to this leader's own first write was lost");
    }

    #[tokio::test(start_paused = true)]
    async fn the_holder_says_in_its_lease_what_it_cannot_watch_until_it_can() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let api = Api::namespaced(Client::new(service, "default"), "ns");
        let stop = CancellationToken::new();
        let mut sights = [None, Some("pods"), None].into_iter();
        let sights = std::sync::Mutex::new(move || sights.next().flatten());
        let sight: Sight = Box::new(move |_| {
            let kind: &str = (sights.lock().unwrap())()?;
            Some(Blindness {
                holder: "a".to_owned(),
                kinds: vec![kind.to_owned()],
                since: DateTime::UNIX_EPOCH.into(),
                reason: "Forbidden".to_owned(),
                waits: false,
            })
        });
        let (name, leadership) = ("lease".to_owned(), Leadership::standby());
        let (clock, holds) = (Arc::default(), stop.clone());
        let holder = tokio::spawn(hold_lease(api, name, "a".to_owned(), leadership, clock, sight, holds));
        let mut said = Vec::new();
        let mut lease = json!({"metadata": {"name": "lease", "annotations": {"acme.io/a": "b"}}});
        while said.len() < 3 {
            let (request, send) = handle.next_request().await.unwrap();
            if request.method() != http::Method::GET {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                lease = serde_json::from_slice(&body).unwrap();
                let read = Blindness::of(&serde_json::from_value(lease.clone()).unwrap());
                said.push(read.map(|blindness| blindness.kinds.join(",")));
                assert_eq!(lease["metadata"]["annotations"]["acme.io/a"], "b");
            }
            send.send_response(http::Response::new(Body::from(lease.to_string().into_bytes())));
        }
        assert_eq!(said, [None, Some("pods".to_owned()), None]);
        holder.abort();
    }
}
