//! How many requests are served at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    ApiError, Reason, ServerOptions,
    metrics::{GaugeGuard, Metrics},
};

/// How many requests are served at once: readers and writers apart, watches not counted. Source of the rule:
/// `k8s.io/apiserver/pkg/server/filters/maxinflight.go`.
#[derive(Debug)]
pub(crate) struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// A place among the requests being served, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    _gauge: GaugeGuard,
}

impl InFlight {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            reads: Arc::new(Semaphore::new(options.max_reads_in_flight)),
            writes: Arc::new(Semaphore::new(options.max_writes_in_flight)),
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when there is none, unless the caller is `privileged`: an administrator always gets an answer.
    pub(crate) fn enter(&self, read: bool, privileged: bool, metrics: &Metrics) -> Result<Place, ApiError> {
        let permits = if read { &self.reads } else { &self.writes };
        let permit = permits.clone().try_acquire_owned().ok();
        if permit.is_none() && !privileged {
            let message = "too many requests, please try again later";
            return Err(ApiError::status(Reason::TooManyRequests, message).retry_after(1));
        }
        Ok(Place { _permit: permit, _gauge: metrics.in_flight(read) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_and_writers_are_limited_apart_and_administrators_never() {
        let options =
            ServerOptions { max_reads_in_flight: 1, max_writes_in_flight: 1, ..ServerOptions::default() };
        let (in_flight, metrics) = (InFlight::new(&options), Metrics::new());
        let read = in_flight.enter(true, false, &metrics).expect("a place");
        let refused = in_flight.enter(true, false, &metrics).expect_err("full");
        assert_eq!(refused.reason(), Reason::TooManyRequests);
        let _write = in_flight.enter(false, false, &metrics).expect("a place of its own");
        let _admin = in_flight.enter(true, true, &metrics).expect("always");
        drop(read);
        in_flight.enter(true, false, &metrics).expect("free again");
    }
}
