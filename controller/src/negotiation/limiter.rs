//! Limits of the questions under way: for each endpoint, for each namespace, and in all.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Maximum number of questions under way.
const IN_ALL: usize = 256;
/// Maximum number of them for the pods of one namespace.
const IN_NAMESPACE: usize = 64;

/// Permits for questions, each for one endpoint of one namespace.
///
/// # Guarantees
///
/// A namespace gets a permit only while more permits are free than it holds itself. Namespaces that are slow
/// therefore hold 64, 64, 64, 32, 16, ... permits, and with up to eight of them another namespace finds a free
/// permit at once. With more it waits for the end of one exchange.
#[derive(Debug)]
pub(super) struct Limiter<E> {
    state: Mutex<State<E>>,
    freed: Notify,
    per_endpoint: usize,
}

#[derive(Debug)]
struct State<E> {
    all: usize,
    namespaces: HashMap<String, usize>,
    endpoints: HashMap<E, usize>,
}

/// Permission to post one question; dropping it frees the permit.
#[derive(Debug)]
pub(super) struct Permit<E: Eq + Hash> {
    limiter: Arc<Limiter<E>>,
    namespace: String,
    endpoint: E,
}

impl<E: Clone + Eq + Hash> Limiter<E> {
    pub(super) fn new(per_endpoint: usize) -> Arc<Self> {
        let state = State { all: 0, namespaces: HashMap::new(), endpoints: HashMap::new() };
        Arc::new(Self { state: Mutex::new(state), freed: Notify::new(), per_endpoint: per_endpoint.max(1) })
    }

    /// Waits for a permit. The second value is true when there was none at once.
    pub(super) async fn acquire(self: &Arc<Self>, namespace: &str, endpoint: E) -> (Permit<E>, bool) {
        let mut waited = false;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Registered before the look, so that no permit that is freed in between is missed.
            freed.as_mut().enable();
            if self.state().take(namespace, &endpoint, self.per_endpoint) {
                let limiter = Arc::clone(self);
                return (Permit { limiter, namespace: namespace.to_owned(), endpoint }, waited);
            }
            waited = true;
            freed.await;
        }
    }
}

impl<E> Limiter<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Clone + Eq + Hash> State<E> {
    fn take(&mut self, namespace: &str, endpoint: &E, per_endpoint: usize) -> bool {
        let held = self.namespaces.get(namespace).copied().unwrap_or(0);
        let at_endpoint = self.endpoints.get(endpoint).copied().unwrap_or(0);
        let free = IN_ALL.saturating_sub(self.all);
        if held >= free.min(IN_NAMESPACE) || at_endpoint >= per_endpoint {
            return false;
        }
        self.all += 1;
        self.namespaces.insert(namespace.to_owned(), held + 1);
        self.endpoints.insert(endpoint.clone(), at_endpoint + 1);
        true
    }
}

impl<E: Eq + Hash> Drop for Permit<E> {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        state.all = state.all.saturating_sub(1);
        release(&mut state.namespaces, self.namespace.as_str());
        release(&mut state.endpoints, &self.endpoint);
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

    fn now<E: Clone + Eq + Hash>(
        limiter: &Arc<Limiter<E>>,
        namespace: &str,
        endpoint: E,
    ) -> Option<Permit<E>> {
        limiter.acquire(namespace, endpoint).now_or_never().map(|(permit, _)| permit)
    }

    #[tokio::test]
    async fn a_question_that_waits_for_a_slow_endpoint_holds_up_no_other() {
        let limiter = Limiter::new(1);
        let slow = now(&limiter, "ns", "slow").unwrap();
        let mut next = Box::pin(limiter.acquire("ns", "slow"));
        assert!(next.as_mut().now_or_never().is_none(), "the endpoint is busy");
        assert!(now(&limiter, "ns", "other").is_some());
        drop(slow);
        assert!(next.await.1, "it waited");
    }

    #[tokio::test]
    async fn rule_9_however_many_namespaces_are_slow_another_finds_a_free_permit() {
        for namespaces in [1, 4, 16, 64, 200] {
            let limiter = Limiter::new(1);
            let mut held = Vec::new();
            let mut endpoint = 0;
            // Each namespace asks for as much as it can get, in turns.
            for _ in 0..2 * IN_NAMESPACE {
                for namespace in 0..namespaces {
                    endpoint += 1;
                    held.extend(now(&limiter, &format!("slow-{namespace}"), endpoint));
                }
            }
            assert!(now(&limiter, "another", 0).is_some(), "{namespaces}: {} are held", held.len());
        }
    }

    #[tokio::test]
    async fn a_namespace_alone_gets_its_limit_and_no_more() {
        let limiter = Limiter::new(IN_ALL);
        let held: Vec<_> = (0..IN_ALL).filter_map(|_| now(&limiter, "ns", 0)).collect();
        assert_eq!(held.len(), IN_NAMESPACE);
    }

    #[tokio::test]
    async fn keys_without_permits_take_no_memory() {
        let limiter = Limiter::new(1);
        drop(now(&limiter, "ns", "a").unwrap());
        let state = limiter.state();
        assert!(state.namespaces.is_empty() && state.endpoints.is_empty() && state.all == 0);
    }
}
