//! Bounds how much of one resource of the server is in use at once, with a share for each caller.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use super::caller::{Caller, Rank};
use crate::{ApiError, Reason, metrics::Metrics};

/// Maximum amounts in use at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// By all callers together.
    pub(crate) total: usize,
    /// Part of `total` that only priority callers use.
    pub(crate) reserve: usize,
    /// By all requests for views together. Views are for everybody, and must not exclude users of the stored
    /// kinds.
    pub(crate) views: usize,
    /// By all service accounts of one namespace.
    pub(crate) of_namespace: usize,
    /// By one caller.
    pub(crate) of_caller: usize,
    /// By one caller, on views.
    pub(crate) of_caller_on_views: usize,
    /// Number of requests of one caller that wait until an earlier one of its own ends.
    pub(crate) waiting: usize,
    /// Maximum wait.
    pub(crate) patience: Duration,
    /// Seconds after which a refused client tries again.
    pub(crate) retry_after: u32,
}

impl Limits {
    /// The usual shares of a total: an eighth for one caller, a quarter for the service accounts of a
    /// namespace, three quarters for views, and an eighth in reserve. Nobody waits.
    pub(crate) fn shares_of(total: usize) -> Self {
        let of_caller = (total / 8).max(1);
        Self {
            total,
            reserve: total / 8,
            views: total - total / 4,
            of_namespace: (total / 4).max(1),
            of_caller,
            of_caller_on_views: of_caller,
            waiting: 0,
            patience: Duration::ZERO,
            retry_after: 1,
        }
    }
}

/// Bounds how much of one resource of the server is in use at once: request slots, watches, bytes of bodies.
///
/// # Guarantees
///
/// An ordinary caller never holds more than its share, and leaves the reserve to priority callers. A caller
/// that has used up its share waits for its own earlier requests only, in order, and in bounded number: at
/// most `total / of_caller` callers can have requests waiting. What an administrator uses is not counted.
#[derive(Clone, Debug)]
pub(crate) struct Limiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Plural of what is counted, such as `reads`: the metric's label, and part of the messages.
    unit: &'static str,
    limits: Limits,
    usage: Mutex<Usage>,
    refused: Counter,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    views: usize,
    by_namespace: HashMap<String, usize>,
    by_caller: HashMap<String, Own>,
}

/// Usage of one caller.
#[derive(Debug, Default)]
struct Own {
    used: usize,
    waiting: VecDeque<Waiting>,
}

/// A request that waits for an earlier one of its caller.
#[derive(Debug)]
struct Waiting {
    caller: Caller,
    claim: Claim,
    sender: oneshot::Sender<Permit>,
}

/// The limit that keeps a request out.
enum Limit {
    /// The caller's share.
    Caller(usize),
    /// The share of the namespace's service accounts.
    Namespace(String),
    /// The maximum for all.
    All,
}

/// Amount and purpose of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) amount: usize,
    pub(crate) of_view: bool,
}

impl Claim {
    /// One request, watch or call.
    pub(crate) fn one(of_view: bool) -> Self {
        Self { amount: 1, of_view }
    }
}

/// Part of a resource in use, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit(Option<Held>);

#[derive(Debug)]
struct Held {
    limiter: Limiter,
    caller: Caller,
    claim: Claim,
}

/// Outcome of one attempt.
enum Attempt {
    Admitted(Permit),
    /// An earlier request of the caller hands its permit over.
    Queued(oneshot::Receiver<Permit>),
    Refused(ApiError),
}

impl Limiter {
    pub(crate) fn new(unit: &'static str, limits: Limits, metrics: &Metrics) -> Self {
        let refused = metrics.refused(unit);
        Self(Arc::new(Inner { unit, limits, usage: Mutex::default(), refused }))
    }

    /// Takes a permit, or waits for one.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when a limit is reached and the caller may not wait, or waited for as long as it
    /// may.
    pub(crate) async fn enter(&self, caller: &Caller, claim: Claim) -> Result<Permit, ApiError> {
        let queued = match self.attempt(caller, claim) {
            Attempt::Admitted(permit) => return Ok(permit),
            Attempt::Refused(error) => return Err(error),
            Attempt::Queued(queued) => queued,
        };
        match tokio::time::timeout(self.0.limits.patience, queued).await {
            Ok(Ok(permit)) => Ok(permit),
            // Others were in the way when its turn came.
            Ok(Err(_)) => Err(self.refuse_all()),
            Err(_) => Err(self.refuse_caller(caller, self.0.limits.of_caller)),
        }
    }

    /// Takes a permit, or none when a limit is reached.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when a limit is reached.
    pub(crate) fn try_enter(&self, caller: &Caller, claim: Claim) -> Result<Permit, ApiError> {
        match self.attempt(caller, claim) {
            Attempt::Admitted(permit) => Ok(permit),
            Attempt::Refused(error) => Err(error),
            Attempt::Queued(_) => Err(self.refuse_caller(caller, self.0.limits.of_caller)),
        }
    }

    fn attempt(&self, caller: &Caller, claim: Claim) -> Attempt {
        if caller.rank == Rank::Exempt {
            return Attempt::Admitted(Permit(None));
        }
        let limits = &self.0.limits;
        let mut usage = self.usage();
        match usage.limit_reached(limits, caller, claim) {
            None => Attempt::Admitted(self.admit(&mut usage, caller.clone(), claim)),
            Some(Limit::Caller(most)) => {
                let own = usage.by_caller.entry(caller.name.clone()).or_default();
                own.waiting.retain(|waiting| !waiting.sender.is_closed());
                if own.waiting.len() >= limits.waiting {
                    return Attempt::Refused(self.refuse_caller(caller, most));
                }
                let (sender, receiver) = oneshot::channel();
                own.waiting.push_back(Waiting { caller: caller.clone(), claim, sender });
                Attempt::Queued(receiver)
            }
            Some(Limit::Namespace(namespace)) => {
                let whose = format!("the service accounts of namespace {namespace:?}");
                Attempt::Refused(self.refuse(&whose, limits.of_namespace))
            }
            Some(Limit::All) => Attempt::Refused(self.refuse_all()),
        }
    }

    fn admit(&self, usage: &mut Usage, caller: Caller, claim: Claim) -> Permit {
        usage.add(&caller, claim);
        Permit(Some(Held { limiter: self.clone(), caller, claim }))
    }

    fn refuse_caller(&self, caller: &Caller, most: usize) -> ApiError {
        self.refuse(&format!("{:?}", caller.name), most)
    }

    fn refuse(&self, whose: &str, most: usize) -> ApiError {
        self.0.refused.inc();
        let unit = self.0.unit.replace('_', " ");
        let message =
            format!("too many {unit} of {whose} at once: the limit is {most}, please try again later");
        ApiError::status(Reason::TooManyRequests, message).retry_after(self.0.limits.retry_after)
    }

    fn refuse_all(&self) -> ApiError {
        self.0.refused.inc();
        let message = format!("too many {}, please try again later", self.0.unit.replace('_', " "));
        ApiError::status(Reason::TooManyRequests, message).retry_after(self.0.limits.retry_after)
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what a request used, and admits those of the same caller that wait and have a place now.
    fn release(&self, held: &Held) {
        let mut usage = self.usage();
        usage.remove(&held.caller, held.claim);
        let mut lost = Vec::new();
        while let Some(next) = usage.next_waiting(&self.0.limits, &held.caller.name) {
            let permit = self.admit(&mut usage, next.caller, next.claim);
            if let Err(permit) = next.sender.send(permit) {
                // That request has left. Its permit is dropped once the lock is free.
                lost.push(permit);
            }
        }
        usage.tidy(&held.caller.name);
        drop(usage);
        drop(lost);
    }
}

impl Usage {
    /// Returns the limit that keeps a request out.
    fn limit_reached(&self, limits: &Limits, caller: &Caller, claim: Claim) -> Option<Limit> {
        let exceeds = |used: usize, most: usize| used > 0 && used + claim.amount > most;
        let all = if caller.rank == Rank::Priority { limits.total } else { limits.total - limits.reserve };
        if caller.rank == Rank::Ordinary {
            let most = if claim.of_view { limits.of_caller_on_views } else { limits.of_caller };
            if exceeds(self.by_caller.get(&caller.name).map_or(0, |own| own.used), most) {
                return Some(Limit::Caller(most));
            }
            if let Some(namespace) = &caller.namespace
                && exceeds(self.by_namespace.get(namespace).copied().unwrap_or_default(), limits.of_namespace)
            {
                return Some(Limit::Namespace(namespace.clone()));
            }
            if claim.of_view && self.views + claim.amount > limits.views {
                return Some(Limit::All);
            }
        }
        (self.total.saturating_add(claim.amount) > all).then_some(Limit::All)
    }

    /// Takes the first request of a caller that waits, if the caller's share has a place now. One that others
    /// keep out is refused, as on arrival, and leaves the place to the next.
    fn next_waiting(&mut self, limits: &Limits, name: &str) -> Option<Waiting> {
        loop {
            let own = self.by_caller.get_mut(name)?;
            own.waiting.retain(|waiting| !waiting.sender.is_closed());
            let first = own.waiting.pop_front()?;
            match self.limit_reached(limits, &first.caller, first.claim) {
                None => return Some(first),
                Some(Limit::Caller(_)) => {
                    self.by_caller.get_mut(name)?.waiting.push_front(first);
                    return None;
                }
                Some(Limit::Namespace(_) | Limit::All) => drop(first),
            }
        }
    }

    /// Forgets a caller that uses nothing. None of its requests waits then.
    fn tidy(&mut self, name: &str) {
        if self.by_caller.get(name).is_some_and(|own| own.used == 0) {
            self.by_caller.remove(name);
        }
    }

    fn add(&mut self, caller: &Caller, claim: Claim) {
        self.total += claim.amount;
        self.views += if claim.of_view { claim.amount } else { 0 };
        self.by_caller.entry(caller.name.clone()).or_default().used += claim.amount;
        if let Some(namespace) = &caller.namespace {
            *self.by_namespace.entry(namespace.clone()).or_default() += claim.amount;
        }
    }

    fn remove(&mut self, caller: &Caller, claim: Claim) {
        self.total = self.total.saturating_sub(claim.amount);
        self.views = self.views.saturating_sub(if claim.of_view { claim.amount } else { 0 });
        if let Some(own) = self.by_caller.get_mut(&caller.name) {
            own.used = own.used.saturating_sub(claim.amount);
        }
        let Some(namespace) = &caller.namespace else { return };
        if let Some(used) = self.by_namespace.get_mut(namespace) {
            *used = used.saturating_sub(claim.amount);
            if *used == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.limiter.clone().release(&held);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join_all};

    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { name: name.to_owned(), namespace: None, rank: Rank::Ordinary }
    }

    fn ranked(name: &str, rank: Rank) -> Caller {
        Caller { rank, ..caller(name) }
    }

    fn of_namespace(name: &str, namespace: &str) -> Caller {
        Caller { namespace: Some(namespace.to_owned()), ..caller(name) }
    }

    fn limiter(limits: Limits) -> Limiter {
        Limiter::new("requests", limits, &Metrics::new())
    }

    fn one() -> Claim {
        Claim::one(false)
    }

    fn assert_refused(result: Result<Permit, ApiError>) {
        assert_eq!(result.expect_err("a refusal").reason(), Reason::TooManyRequests);
    }

    #[test]
    fn a_caller_that_takes_all_it_can_leaves_the_rest_to_others() {
        let limiter = limiter(Limits::shares_of(16));
        let mut taken: Vec<_> =
            (0..2).map(|_| limiter.try_enter(&caller("greedy"), one()).expect("own")).collect();
        assert_refused(limiter.try_enter(&caller("greedy"), one()));
        let _other = limiter.try_enter(&caller("jane"), one()).expect("a share of its own");
        taken.pop();
        drop(limiter.try_enter(&caller("greedy"), one()).expect("free again"));
    }

    #[test]
    fn the_service_accounts_of_one_namespace_leave_the_rest_to_others() {
        let limiter = limiter(Limits::shares_of(16));
        let pod = |at: usize| of_namespace(&format!("pod-{at}"), "shop");
        let _taken: Vec<_> = (0..4).map(|at| limiter.try_enter(&pod(at), one()).expect("a slot")).collect();
        assert_refused(limiter.try_enter(&pod(5), one()));
        let _other = limiter.try_enter(&of_namespace("pod", "bank"), one()).expect("another namespace");
    }

    #[test]
    fn the_reserve_is_for_priority_callers_and_administrators_need_no_permit() {
        let limiter = limiter(Limits::shares_of(16));
        let _taken: Vec<_> = (0..14).map(|at| limiter.try_enter(&caller(&at.to_string()), one())).collect();
        assert_refused(limiter.try_enter(&caller("late"), one()));
        let controller = ranked("controller", Rank::Priority);
        let _reserved = [(); 2].map(|()| limiter.try_enter(&controller, one()).expect("the reserve"));
        assert_refused(limiter.try_enter(&controller, one()));
        drop(limiter.try_enter(&ranked("admin", Rank::Exempt), one()).expect("always"));
    }

    #[test]
    fn requests_for_views_leave_a_quarter_to_the_stored_kinds() {
        let limits = Limits { of_caller_on_views: 2, reserve: 0, ..Limits::shares_of(8) };
        let limiter = limiter(Limits { of_caller: 8, ..limits });
        let view = |name: &str| limiter.try_enter(&caller(name), Claim::one(true));
        let held: Vec<_> = ["a", "a", "b", "b", "c", "c"].map(|name| view(name).expect("a slot")).into();
        assert_refused(view("a"));
        assert_refused(view("d"));
        let _watches = [(); 2].map(|()| limiter.try_enter(&caller("controller"), one()).expect("a slot"));
        drop(held);
        drop(view("d").expect("free again"));
    }

    #[test]
    fn bytes_are_counted_and_a_caller_can_always_have_one_request() {
        let limiter = limiter(Limits::shares_of(80));
        let bytes = |amount: usize| Claim { amount, of_view: false };
        let large = limiter.try_enter(&caller("jane"), bytes(30)).expect("the first, whatever its size");
        assert_refused(limiter.try_enter(&caller("jane"), bytes(1)));
        let _small = limiter.try_enter(&caller("joe"), bytes(10)).expect("its share");
        assert_refused(limiter.try_enter(&caller("jim"), bytes(31)));
        drop(large);
        drop(limiter.try_enter(&caller("jim"), bytes(31)).expect("free again"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_over_its_share_waits_for_its_own_requests_in_bounded_number() {
        let limits = Limits { waiting: 1, patience: Duration::from_secs(5), ..Limits::shares_of(8) };
        let limiter = limiter(limits);
        let greedy = caller("greedy");
        let first = limiter.enter(&greedy, one()).await.expect("a slot");
        let mut second = Box::pin(limiter.enter(&greedy, one()));
        assert!((&mut second).now_or_never().is_none(), "waits");
        assert_refused(limiter.enter(&greedy, one()).await);
        drop(limiter.enter(&caller("jane"), one()).await.expect("others do not wait"));
        drop(first);
        let second = second.await.expect("handed over");
        assert_refused(limiter.enter(&greedy, one()).await);
        drop(second);
        drop(limiter.enter(&greedy, one()).await.expect("free again"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waited_counts_as_what_it_is() {
        let limits = Limits { waiting: 4, patience: Duration::from_secs(5), ..Limits::shares_of(8) };
        let limiter = limiter(Limits { views: 1, ..limits });
        let greedy = caller("greedy");
        let read = limiter.enter(&greedy, one()).await.expect("a slot");
        let mut view = Box::pin(limiter.enter(&greedy, Claim::one(true)));
        assert!((&mut view).now_or_never().is_none(), "waits");
        drop(read);
        let view = view.await.expect("admitted");
        assert_refused(limiter.enter(&caller("jane"), Claim::one(true)).await);
        drop(view);

        // The one slot for views is another caller's by the time at which the request could have it.
        let read = limiter.enter(&greedy, one()).await.expect("a slot");
        let mut late = Box::pin(limiter.enter(&greedy, Claim::one(true)));
        let mut next = Box::pin(limiter.enter(&greedy, one()));
        assert!((&mut late).now_or_never().is_none() && (&mut next).now_or_never().is_none(), "wait");
        let _view = limiter.enter(&caller("jane"), Claim::one(true)).await.expect("the slot");
        drop(read);
        assert_refused(late.await);
        drop(next.await.expect("it does not wait behind the view"));
    }

    #[test]
    fn what_an_administrator_uses_is_not_taken_from_others() {
        let limiter = limiter(Limits { reserve: 0, ..Limits::shares_of(8) });
        let admin = ranked("admin", Rank::Exempt);
        let _used: Vec<_> = (0..20).map(|_| limiter.try_enter(&admin, one()).expect("always")).collect();
        drop(limiter.try_enter(&caller("jane"), one()).expect("her share"));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_left_while_they_waited_take_nothing() {
        let limits = Limits { waiting: 2, patience: Duration::from_secs(5), ..Limits::shares_of(8) };
        let limiter = limiter(limits);
        let greedy = caller("greedy");
        let first = limiter.enter(&greedy, one()).await.expect("a slot");
        let mut left = Box::pin(limiter.enter(&greedy, one()));
        let mut stays = Box::pin(limiter.enter(&greedy, one()));
        assert!((&mut left).now_or_never().is_none() && (&mut stays).now_or_never().is_none());
        drop(left);
        drop(first);
        let permit = stays.await.expect("handed over");
        let mut handed = Box::pin(limiter.enter(&greedy, one()));
        assert!((&mut handed).now_or_never().is_none());
        drop(permit);
        // Dropped after the permit was handed over, before it was taken.
        drop(handed);
        assert_eq!(limiter.usage().total, 0);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_callers_that_left() {
        let limits = Limits { waiting: 8, patience: Duration::from_mins(1), ..Limits::shares_of(8) };
        let limiter = limiter(limits);
        let enter = |at: usize| {
            let limiter = limiter.clone();
            async move { limiter.enter(&of_namespace(&format!("pod-{}", at % 3), "shop"), one()).await.map(drop) }
        };
        join_all((0..20).map(enter)).await;
        let usage = limiter.usage();
        assert!(usage.by_caller.is_empty() && usage.by_namespace.is_empty() && usage.total == 0);
    }
}
