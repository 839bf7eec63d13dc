//! The work on one Evacuation: see, decide, act, until there is nothing left to do.

mod act;
mod attempt;
pub(crate) mod evictor;
mod notice;
pub(crate) mod push;
mod question;
mod status;
mod turn;
mod world;

use std::{sync::Arc, time::Duration};

pub(crate) use notice::notices;

use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Attempt, record_eviction};
use tokio::time::Instant;
use tracing::warn;

use crate::{
    ObjectKey,
    backoff::backoff,
    clock::due,
    controller::{Controller, lock},
    error::CallError,
    evictor::AttemptId,
    lease::LEASE_PAUSE,
};

/// How many rounds one turn of a worker has at most; then others come first.
const ROUNDS: usize = 16;
/// The shortest and the longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// What a round led to.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// The object changed: decide again.
    Again,
    /// Nothing is left to do before that time.
    Rest(Option<Instant>),
}

impl Controller {
    /// Works on an Evacuation until nothing is left to do, and schedules when to look again.
    pub(crate) async fn work(self: &Arc<Self>, key: &ObjectKey) {
        // Nothing could be written, and the workers would only wait for timeouts.
        if self.reachability.is_out(std::time::Instant::now()) || self.leadership.check().is_err() {
            self.queue.add_at(key.clone(), Instant::now() + LEASE_PAUSE);
            return;
        }
        for _ in 0..ROUNDS {
            match self.round(key).await {
                Ok(Round::Again) => {
                    lock(&self.failures).remove(key);
                }
                Ok(Round::Rest(time)) => {
                    lock(&self.failures).remove(key);
                    match time {
                        Some(time) => self.queue.add_at(key.clone(), time),
                        None => self.queue.unschedule(key),
                    }
                    return;
                }
                Err(error) => {
                    self.failed(key, &error);
                    return;
                }
            }
        }
        self.queue.add(key.clone());
    }

    async fn round(self: &Arc<Self>, key: &ObjectKey) -> Result<Round, CallError> {
        let known = lock(&self.index).evacuation(key);
        let Some(evacuation) = known else {
            self.forget(key);
            return Ok(Round::Rest(None));
        };
        if self.record_outcome(key, &evacuation).await? {
            return Ok(Round::Again);
        }
        let now = self.clock.now();
        let world = self.world(key, &evacuation).await?;
        let (decision, probe) = self.decide(key, &evacuation, world.clone(), now);
        let mut rest = earlier(decision.wake_at.map(|time| due(time, now)), probe);
        for act in decision.acts {
            match self.act(key, &evacuation, &world, act).await? {
                Round::Again => return Ok(Round::Again),
                Round::Rest(time) => rest = earlier(rest, time),
            }
        }
        Ok(Round::Rest(rest))
    }

    /// Writes down how an attempt went, once it is over. True when that changed the object.
    async fn record_outcome(&self, key: &ObjectKey, evacuation: &Arc<Evacuation>) -> Result<bool, CallError> {
        let id = AttemptId::last(evacuation);
        if !in_flight(evacuation.status.as_ref()) {
            // The record of an attempt that was never posted, or whose outcome somebody else found out.
            if self.attempts.outcome(key, &id).is_some() || self.attempts.view(key, &id) == Attempt::Recorded
            {
                self.attempts.forget(key);
            }
            return Ok(false);
        }
        let (Some(outcome), Some(status)) = (self.attempts.outcome(key, &id), &evacuation.status) else {
            return Ok(false);
        };
        let status = record_eviction(status, &outcome, rand::random(), self.clock.now());
        self.write_status(key, evacuation, status).await?;
        Ok(true)
    }

    /// Records the outcomes of the attempts that are under way. Ends when there are none left.
    pub(crate) async fn drain(self: &Arc<Self>) {
        loop {
            let open = self.attempts.open();
            if open.is_empty() {
                return;
            }
            for key in open {
                let known = lock(&self.index).evacuation(&key);
                let Some(evacuation) = known else {
                    self.attempts.forget(&key);
                    continue;
                };
                if let Err(error) = self.record_outcome(&key, &evacuation).await {
                    warn!(error = &error as &dyn std::error::Error, evacuation = %key, "the outcome was not recorded");
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn failed(&self, key: &ObjectKey, error: &CallError) {
        if !self.attempts.has(key) {
            self.leave_queue(key);
        }
        let failures = {
            let mut failures = lock(&self.failures);
            let count = failures.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.metrics.failures.inc();
        let pause = error.retry_after().unwrap_or_else(|| backoff(PAUSE.0, PAUSE.1, failures));
        // What the API calls a conflict, or too early, is the way of things.
        if error.code() != 409 {
            warn!(error = error as &dyn std::error::Error, evacuation = %key, "the work on an evacuation failed");
        }
        self.queue.add_at(key.clone(), Instant::now() + pause);
    }

    /// Forgets what was kept of an Evacuation that is gone.
    fn forget(&self, key: &ObjectKey) {
        lock(&self.failures).remove(key);
        self.attempts.forget(key);
        self.deliveries.forget(key);
        self.leave_queue(key);
    }
}

/// Whether an attempt is recorded whose outcome is not.
fn in_flight(status: Option<&EvacuationStatus>) -> bool {
    status.and_then(|status| status.eviction.as_ref()).is_some_and(|eviction| eviction.in_flight)
}

fn uid(evacuation: &Evacuation) -> &str {
    evacuation.metadata.uid.as_deref().unwrap_or_default()
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
