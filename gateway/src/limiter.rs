//! Bounds on the calls that wait for the API at the same time, with a share for each flow.
//!
//! The service accounts of a namespace are one flow, as at the API server: a tenant makes any number of them.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use machinery_auth::flow;
use machinery_client::{NoSlot, Shares, Slot};
use moka::sync::Cache;
use tokio::time::Instant;

/// Maximum number of calls that wait for the API. Each has a connection of its own, and more connections
/// would only make all of them late.
const CALLS: usize = 64;
/// Maximum number of one flow: a quarter, so that no flow holds up another.
const CALLS_OF_USER: usize = CALLS / 4;
/// Start of the names of the control plane's accounts. Each is a flow: tenants cannot make one.
const CONTROL_PLANE: &str = "system:serviceaccount:kube-system:";

/// Number of calls for a pod that were not counted after which a failure can last.
const TRIES: u32 = 4;
/// Maximum number of pods whose calls found no slot that are remembered.
const PODS: u64 = 10_000;
/// Time after a pod's last call without a slot or a count in which the first one is remembered: longer than
/// two pauses of a workload controller between two tries, which are 1,000 s at most. The next try may be
/// another replica's.
const REMEMBERED: Duration = Duration::from_mins(40);

/// The bounds of the users.
#[derive(Debug)]
pub(crate) struct Limiter {
    slots: Shares,
    /// Number of slots of one flow.
    of_user: usize,
    /// The first time at which a call for a pod found no slot, by the pod's UID.
    turned_away: Cache<String, Instant>,
    /// The times at which the eviction API first did not count the deletion of a pod, and their numbers, by
    /// the pod's UID.
    uncounted: Cache<String, (Instant, u32)>,
    /// The last time at which the eviction API counted a deletion, by the namespace.
    counted: Cache<String, Instant>,
    /// The last time at which a call found a free slot at once.
    last_free: Mutex<Instant>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new(CALLS, CALLS_OF_USER)
    }
}

impl Limiter {
    fn new(all: usize, of_user: usize) -> Self {
        let turned_away = Cache::builder().max_capacity(PODS).time_to_idle(REMEMBERED).build();
        let uncounted = Cache::builder().max_capacity(PODS).time_to_idle(REMEMBERED).build();
        let counted = Cache::builder().max_capacity(PODS).time_to_idle(REMEMBERED).build();
        let last_free = Mutex::new(Instant::now());
        let slots = Shares::new(all, of_user);
        Self { slots, of_user, turned_away, uncounted, counted, last_free }
    }

    /// Returns true while the user has more than a quarter of its share in progress.
    pub(crate) fn is_crowded(&self, user: &str) -> bool {
        self.slots.taken(share_of(user)) > self.of_user / 4
    }

    /// Returns true while every slot is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Records that a call for the pod of that UID found no slot, and returns the time since the first such
    /// call in which no slot was free. A pause of [`REMEMBERED`] between two of them starts over. So does a
    /// slot that is free at once: two short floods are no long one.
    pub(crate) fn turned_away(&self, pod: &str) -> Duration {
        let first = self.turned_away.get_with_by_ref(pod, Instant::now);
        let free = *self.last_free.lock().unwrap_or_else(PoisonError::into_inner);
        first.max(free).elapsed()
    }

    /// Records that the eviction API did not count the deletion of the pod of that UID, and returns the time
    /// since the first such call. With a namespace, a count of another deletion in it starts over. So does a
    /// pause of [`REMEMBERED`]. Zero for the first [`TRIES`] calls: two unlucky ones far apart are no failure
    /// that lasts.
    pub(crate) fn not_counted(&self, namespace: Option<&str>, pod: &str) -> Duration {
        let entry = self.uncounted.entry_by_ref(pod).and_upsert_with(|known| match known {
            Some(known) => (known.value().0, known.value().1.saturating_add(1)),
            None => (Instant::now(), 1),
        });
        let (first, calls) = *entry.value();
        let counted = namespace.and_then(|namespace| self.counted.get(namespace));
        if calls > TRIES {
            counted.map_or(first, |counted| first.max(counted)).elapsed()
        } else {
            Duration::ZERO
        }
    }

    /// Records that the eviction API counted a deletion of the namespace.
    pub(crate) fn counted(&self, namespace: &str) {
        self.counted.insert(namespace.to_owned(), Instant::now());
    }

    /// Forgets the calls for the pod of that UID that nobody dealt with: its app is asked now, or a budget
    /// holds it.
    pub(crate) fn asked(&self, pod: &str) {
        self.turned_away.invalidate(pod);
        self.uncounted.invalidate(pod);
    }

    /// Waits for a slot for that user, at most for `patience`.
    pub(crate) async fn slot(&self, user: &str, patience: Duration) -> Result<Slot, NoSlot> {
        let slot = self.slots.slot(share_of(user), patience).await?;
        if slot.was_free() {
            *self.last_free.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        Ok(slot)
    }
}

/// Returns the flow whose share a user takes.
fn share_of(user: &str) -> &str {
    if user.starts_with(CONTROL_PLANE) { user } else { flow(user) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_user_with_too_many_calls_waits_and_others_do_not() {
        let limiter = Limiter::new(4, 2);
        let first = limiter.slot("mallory", SOON).await.unwrap();
        let _second = limiter.slot("mallory", SOON).await.unwrap();
        assert!(limiter.is_crowded("mallory") && !limiter.is_crowded("alice"));
        assert_eq!(limiter.slot("mallory", SOON).await.unwrap_err(), NoSlot::Flow);
        limiter.slot("alice", SOON).await.unwrap();
        drop(first);
        limiter.slot("mallory", SOON).await.unwrap();
    }

    /// # Attack
    ///
    /// - Attacker: a tenant with many service accounts
    /// - Act: takes every slot of the gateway, a few for each account
    /// - Promise: 8
    #[tokio::test(start_paused = true)]
    async fn the_service_accounts_of_a_namespace_share_one_share_and_controllers_have_their_own() {
        let limiter = Limiter::default();
        let account = |name: &str| format!("system:serviceaccount:{name}");
        let mut slots = Vec::new();
        for call in 0..CALLS {
            // As many calls as there are slots, of eight accounts in turn.
            match limiter.slot(&account(&format!("tenant:app-{}", call % 8)), SOON).await {
                Ok(slot) => slots.push(slot),
                Err(reason) => assert_eq!(reason, NoSlot::Flow, "call {call}"),
            }
        }
        assert_eq!(slots.len(), CALLS_OF_USER, "one share for all of them");
        assert!(limiter.is_crowded(&account("tenant:another")) && !limiter.is_full());
        slots.push(limiter.slot(&account("unrelated:a"), SOON).await.expect("an unrelated tenant is served"));
        for controller in ["replicaset-controller", "job-controller"] {
            for _ in 0..CALLS_OF_USER {
                slots.push(limiter.slot(&account(&format!("kube-system:{controller}")), SOON).await.unwrap());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_users_together_are_bounded() {
        let limiter = Limiter::new(2, 1);
        let slots = [limiter.slot("a", SOON).await.unwrap(), limiter.slot("b", SOON).await.unwrap()];
        assert_eq!(limiter.slot("c", SOON).await.unwrap_err(), NoSlot::All);
        assert!(limiter.is_full());
        drop(slots);
        assert!(!limiter.is_full());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pods_time_without_a_slot_counts_from_its_first_call_until_it_is_asked() {
        let limiter = Limiter::default();
        let minutes = Duration::from_mins;
        assert_eq!(limiter.turned_away("1"), Duration::ZERO);
        tokio::time::advance(minutes(12)).await;
        assert_eq!(limiter.turned_away("1"), minutes(12));
        assert_eq!(limiter.turned_away("2"), Duration::ZERO, "each pod has a time of its own");
        limiter.slot("alice", SOON).await.unwrap();
        assert_eq!(limiter.turned_away("1"), Duration::ZERO, "two short floods are no long one");
        tokio::time::advance(minutes(3)).await;
        assert_eq!(limiter.turned_away("1"), minutes(3));
        limiter.asked("1");
        assert_eq!(limiter.turned_away("1"), Duration::ZERO);
    }
}
