//! Bounds how much of one resource of the server is in use at once, with a share for each caller.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    limits::Limits,
    permit::{Claim, Permit},
    queues::{Place, Queuer, Queues},
    usage::{Limit, Usage},
};
use crate::{
    ApiError, Reason,
    http::caller::{Caller, Rank},
    metrics::{FlowMeters, GaugeGuard, Metrics, Refusal},
};

/// Bounds how much of one resource of the server is in use at once: request slots, watches, bytes of bodies.
///
/// # Guarantees
///
/// An ordinary caller never holds more than its share, and leaves the reserve to priority callers. A request
/// without room waits for its turn, in bounded number and for a bounded time. What an administrator uses is
/// not counted.
#[derive(Clone, Debug)]
pub(crate) struct Limiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Plural of what is counted, such as `reads`: the metric's label, and part of the messages.
    unit: &'static str,
    limits: Limits,
    state: Mutex<State>,
    meters: FlowMeters,
}

#[derive(Debug, Default)]
struct State {
    usage: Usage,
    queues: Queues<Waiter>,
}

/// A request that waits.
#[derive(Debug)]
struct Waiter {
    caller: Caller,
    claim: Claim,
    sender: oneshot::Sender<Permit>,
}

/// Outcome of one attempt.
enum Attempt {
    Admitted(Permit),
    Queued(Queued),
    Refused(ApiError),
}

/// Place of a request in the queues, which it leaves when this is dropped.
struct Queued {
    limiter: Limiter,
    place: Place,
    /// The limit that it waits for.
    limit: Limit,
    receiver: oneshot::Receiver<Permit>,
    _gauge: GaugeGuard,
}

impl Limiter {
    pub(crate) fn new(unit: &'static str, limits: Limits, metrics: &Metrics) -> Self {
        let meters = metrics.flow(unit);
        Self(Arc::new(Inner { unit, limits, state: Mutex::default(), meters }))
    }

    /// Takes a permit, or waits for one, at most for `patience`.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when too many wait already, or the wait was too long.
    pub(crate) async fn enter(
        &self,
        caller: &Caller,
        claim: Claim,
        patience: Duration,
    ) -> Result<Permit, ApiError> {
        let mut queued = match self.attempt(caller, claim, !patience.is_zero()) {
            Attempt::Admitted(permit) => return Ok(permit),
            Attempt::Refused(error) => return Err(error),
            Attempt::Queued(queued) => queued,
        };
        let started = Instant::now();
        let outcome = tokio::time::timeout(patience, &mut queued.receiver).await;
        self.0.meters.waited(caller.rank, matches!(outcome, Ok(Ok(_))), started.elapsed());
        match outcome {
            Ok(Ok(permit)) => Ok(permit),
            // A request of a flow with fewer has taken the place.
            Ok(Err(_)) => Err(self.refuse(caller, &queued.limit, Refusal::QueueFull)),
            Err(_) => Err(self.refuse(caller, &queued.limit, Refusal::TimeOut)),
        }
    }

    /// Takes a permit, or none when a limit is reached.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when a limit is reached.
    pub(crate) fn try_enter(&self, caller: &Caller, claim: Claim) -> Result<Permit, ApiError> {
        match self.attempt(caller, claim, false) {
            Attempt::Admitted(permit) => Ok(permit),
            Attempt::Refused(error) => Err(error),
            Attempt::Queued(queued) => Err(self.refuse(caller, &queued.limit, Refusal::ConcurrencyLimit)),
        }
    }

    /// Admits a request that there is room for. Those that wait have no room now, so it overtakes nobody.
    fn attempt(&self, caller: &Caller, claim: Claim, may_wait: bool) -> Attempt {
        if caller.rank == Rank::Exempt {
            return Attempt::Admitted(Permit::uncounted());
        }
        let mut state = self.state();
        let Some(limit) = state.usage.limit_reached(&self.0.limits, caller, claim) else {
            return Attempt::Admitted(self.admit(&mut state.usage, caller.clone(), claim));
        };
        if !may_wait {
            return Attempt::Refused(self.refuse(caller, &limit, Refusal::ConcurrencyLimit));
        }
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter { caller: caller.clone(), claim, sender };
        let flow = caller.flow();
        let has_priority = caller.rank == Rank::Priority;
        let queuer = Queuer { flow: &flow, caller: &caller.name, has_priority };
        match state.queues.push(queuer, waiter, self.0.limits.waiting) {
            // The displaced request, if there is one, is refused when its sender is dropped.
            Ok((place, _displaced)) => Attempt::Queued(Queued {
                limiter: self.clone(),
                place,
                limit,
                receiver,
                _gauge: self.0.meters.in_queue(caller.rank),
            }),
            Err(_) => Attempt::Refused(self.refuse(caller, &limit, Refusal::QueueFull)),
        }
    }

    fn admit(&self, usage: &mut Usage, caller: Caller, claim: Claim) -> Permit {
        self.0.meters.dispatched(caller.rank);
        usage.add(&caller, claim);
        Permit::counted(self.clone(), caller, claim)
    }

    fn refuse(&self, caller: &Caller, limit: &Limit, refusal: Refusal) -> ApiError {
        self.0.meters.refused(caller.rank, refusal);
        let unit = self.0.unit.replace('_', " ");
        let of = |whose: String, most: usize| {
            format!("too many {unit} of {whose} at once: the limit is {most}, please try again later")
        };
        let message = match limit {
            Limit::Caller(most) => of(format!("{:?}", caller.name), *most),
            Limit::Namespace(namespace) => {
                of(format!("the service accounts of namespace {namespace:?}"), self.0.limits.of_namespace)
            }
            Limit::All => format!("too many {unit}, please try again later"),
        };
        ApiError::status(Reason::TooManyRequests, message).retry_after(self.0.limits.retry_after)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what a request used, and admits those that wait and have room now, in turns.
    pub(super) fn release(&self, caller: &Caller, claim: Claim) {
        let mut state = self.state();
        state.usage.remove(caller, claim);
        let mut lost = Vec::new();
        let State { usage, queues } = &mut *state;
        let limits = &self.0.limits;
        // Under load one request takes the place of another. The rest of the queues is not looked at then.
        while usage.has_room(limits, queues.has_priority())
            && let Some(next) =
                queues.next(|next| usage.limit_reached(limits, &next.caller, next.claim).is_none())
        {
            let permit = self.admit(usage, next.caller, next.claim);
            if let Err(permit) = next.sender.send(permit) {
                // That request has just left. Its permit is dropped once the lock is free.
                lost.push(permit);
            }
        }
        drop(state);
        drop(lost);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.limiter.state().queues.remove(&self.place);
    }
}

#[cfg(test)]
mod tests;
