//! Limits of the calls under way: for each target, for each namespace, and in all.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Permits for calls, each for one target of one namespace: questions to endpoints, evictions that begin.
///
/// # Guarantees
///
/// A namespace gets at most a quarter of the permits, and one only while more are free than it holds itself.
/// Namespaces whose calls are slow therefore hold 64, 64, 64, 32, 16, ... of 256 permits, and with up to nine
/// of them another namespace finds a free permit at once. With more it waits for the end of a call, with
/// whoever else waits.
#[derive(Debug)]
pub(super) struct Limiter<T> {
    state: Mutex<State<T>>,
    freed: Notify,
    limits: Limits,
}

/// Maximum numbers of permits.
#[derive(Clone, Copy, Debug)]
struct Limits {
    all: usize,
    of_namespace: usize,
    of_target: usize,
}

#[derive(Debug)]
struct State<T> {
    all: usize,
    namespaces: HashMap<String, usize>,
    targets: HashMap<T, usize>,
}

/// Permission for one call; dropping it frees the permit.
#[derive(Debug)]
pub(super) struct Permit<T: Eq + Hash> {
    limiter: Arc<Limiter<T>>,
    namespace: String,
    target: T,
}

impl<T: Clone + Eq + Hash> Limiter<T> {
    /// Returns a limiter with that many permits, and at most so many for one target.
    pub(super) fn new(all: usize, of_target: usize) -> Arc<Self> {
        let state = State { all: 0, namespaces: HashMap::new(), targets: HashMap::new() };
        let limits = Limits { all, of_namespace: (all / 4).max(1), of_target: of_target.max(1) };
        Arc::new(Self { state: Mutex::new(state), freed: Notify::new(), limits })
    }

    /// Waits for a permit. The second value is true when there was none at once.
    pub(super) async fn acquire(self: &Arc<Self>, namespace: &str, target: T) -> (Permit<T>, bool) {
        let mut waited = false;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Registered before the look, so that no permit that is freed in between is missed.
            freed.as_mut().enable();
            if self.state().take(namespace, &target, self.limits) {
                let limiter = Arc::clone(self);
                return (Permit { limiter, namespace: namespace.to_owned(), target }, waited);
            }
            waited = true;
            freed.await;
        }
    }
}

impl<T> Limiter<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Eq + Hash> State<T> {
    fn take(&mut self, namespace: &str, target: &T, limits: Limits) -> bool {
        let held = self.namespaces.get(namespace).copied().unwrap_or(0);
        let of_target = self.targets.get(target).copied().unwrap_or(0);
        let free = limits.all.saturating_sub(self.all);
        if held >= free.min(limits.of_namespace) || of_target >= limits.of_target {
            return false;
        }
        self.all += 1;
        self.namespaces.insert(namespace.to_owned(), held + 1);
        self.targets.insert(target.clone(), of_target + 1);
        true
    }
}

impl<T: Eq + Hash> Drop for Permit<T> {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        state.all = state.all.saturating_sub(1);
        release(&mut state.namespaces, self.namespace.as_str());
        release(&mut state.targets, &self.target);
        drop(state);
        self.limiter.freed.notify_waiters();
    }
}

/// Frees one permit of a key. A key without permits takes no memory.
fn release<K: Eq + Hash + std::borrow::Borrow<Q>, Q: Eq + Hash + ?Sized>(
    held: &mut HashMap<K, usize>,
    key: &Q,
) {
    let left = held.get_mut(key).map(|count| {
        *count = count.saturating_sub(1);
        *count
    });
    if left == Some(0) {
        held.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const ALL: usize = 256;

    fn now<T: Clone + Eq + Hash>(limiter: &Arc<Limiter<T>>, namespace: &str, target: T) -> Option<Permit<T>> {
        limiter.acquire(namespace, target).now_or_never().map(|(permit, _)| permit)
    }

    #[tokio::test]
    async fn a_call_that_waits_for_a_slow_target_holds_up_no_other() {
        let limiter = Limiter::new(ALL, 1);
        let slow = now(&limiter, "ns", "slow").unwrap();
        let mut next = Box::pin(limiter.acquire("ns", "slow"));
        assert!(next.as_mut().now_or_never().is_none(), "the target is busy");
        assert!(now(&limiter, "ns", "other").is_some());
        drop(slow);
        assert!(next.await.1, "it waited");
    }

    /// Returns true when a namespace finds a free permit after so many slow ones took what they could get.
    fn finds_a_permit(all: usize, slow: usize) -> bool {
        let limiter = Limiter::new(all, 1);
        let targets = (0..slow).flat_map(|namespace| (0..all).map(move |target| (namespace, target)));
        let _held: Vec<_> = targets
            .filter_map(|(namespace, target)| {
                now(&limiter, &format!("slow-{namespace}"), (namespace, target))
            })
            .collect();
        now(&limiter, "another", (slow, 0)).is_some()
    }

    #[tokio::test]
    async fn rule_9_several_namespaces_that_are_slow_leave_a_free_permit_to_another() {
        assert!((0..=9).all(|slow| finds_a_permit(256, slow)) && !finds_a_permit(256, 10));
    }

    #[tokio::test]
    async fn a_namespace_waits_for_one_call_of_however_many_slow_ones() {
        let limiter = Limiter::new(4, 1);
        let mut held: Vec<_> = (0..4).map(|at| now(&limiter, &format!("slow-{at}"), at).unwrap()).collect();
        let mut waiting = Box::pin(limiter.acquire("another", 9));
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_namespace_alone_gets_its_limit_and_no_more() {
        let limiter = Limiter::new(ALL, ALL);
        let held: Vec<_> = (0..ALL).filter_map(|_| now(&limiter, "ns", 0)).collect();
        assert_eq!(held.len(), ALL / 4);
    }

    #[tokio::test]
    async fn keys_without_permits_take_no_memory() {
        let limiter = Limiter::new(ALL, 1);
        drop(now(&limiter, "ns", "a").unwrap());
        let state = limiter.state();
        assert!(state.namespaces.is_empty() && state.targets.is_empty() && state.all == 0);
    }
}
