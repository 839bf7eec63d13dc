//! The limits of a server: one limiter for each resource that callers share.

use std::time::Duration;

use super::{
    limiter::Limiter,
    limits::{Limits, Waiting},
    permit::{Claim, Permit},
};
use crate::{ApiError, ServerOptions, http::caller::Caller, metrics::Metrics};

/// Bytes that a request body counts at least: one that is empty or short costs a connection and a buffer.
const SMALLEST_BODY: usize = 16 * 1024;
/// Maximum numbers of requests that wait. Each costs a connection and its head.
const WAITING: Waiting = Waiting { total: 4000, of_flow: 250, of_caller: 100 };

/// The limits of a server.
#[derive(Debug)]
pub(crate) struct Limiters {
    reads: Limiter,
    writes: Limiter,
    watches: Limiter,
    body_bytes: Limiter,
    token_reviews: Limiter,
}

impl Limiters {
    pub(crate) fn new(options: &ServerOptions, metrics: &Metrics) -> Self {
        let requests = |total| Limits { waiting: WAITING, ..Limits::shares_of(total) };
        let watches = Limits {
            of_namespace: (options.max_watches / 2).max(1),
            of_caller: options.max_watches_of_one,
            of_caller_on_views: options.max_view_watches_of_one.min(options.max_watches_of_one),
            retry_after: 5,
            ..Limits::shares_of(options.max_watches)
        };
        let limiter = |unit, limits| Limiter::new(unit, limits, metrics);
        Self {
            reads: limiter("reads", requests(options.max_reads_in_flight)),
            writes: limiter("writes", requests(options.max_writes_in_flight)),
            watches: limiter("watches", watches),
            body_bytes: limiter("body_bytes", Limits::shares_of(options.max_body_bytes)),
            token_reviews: limiter("token_reviews", requests(options.max_token_reviews)),
        }
    }

    /// A slot among the requests in progress. A watch has one until it has started.
    pub(crate) async fn request(
        &self,
        caller: &Caller,
        read: bool,
        of_view: bool,
        patience: Duration,
    ) -> Result<Permit, ApiError> {
        let limiter = if read { &self.reads } else { &self.writes };
        limiter.enter(caller, Claim::one(of_view), patience).await
    }

    pub(crate) fn watch(&self, caller: &Caller, of_view: bool) -> Result<Permit, ApiError> {
        self.watches.try_enter(caller, Claim::one(of_view))
    }

    /// Memory for a request body of at most that size.
    pub(crate) fn body(&self, caller: &Caller, size: usize) -> Result<Permit, ApiError> {
        let claim = Claim { amount: size.max(SMALLEST_BODY), of_view: false };
        self.body_bytes.try_enter(caller, claim)
    }

    /// The authentication of a bearer token that came from that address. Nothing else is known of the caller
    /// yet. A client whose token has to be reviewed again waits for the review with all of its requests.
    pub(crate) async fn token_review(&self, address: &str, patience: Duration) -> Result<Permit, ApiError> {
        self.token_reviews.enter(&Caller::at_address(address), Claim::one(false), patience).await
    }
}
