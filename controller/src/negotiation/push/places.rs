//! How much is under way at a time: with each endpoint, for each namespace, and in all.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded number of places for each key. Keys that nobody uses take no room.
#[derive(Debug)]
pub(super) struct Places<K> {
    each: usize,
    by_key: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// A place, which is free again when this is dropped. `None` would mean that a semaphore was closed, which none is.
pub(super) type Place = Option<OwnedSemaphorePermit>;

impl<K: Eq + Hash> Places<K> {
    pub(super) fn new(each: usize) -> Self {
        Self { each: each.max(1), by_key: Mutex::default() }
    }

    /// The places of a key.
    pub(super) fn of(&self, key: K) -> Arc<Semaphore> {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        // Who holds or waits for a place holds the semaphore, too.
        by_key.retain(|_, places| Arc::strong_count(places) > 1);
        Arc::clone(by_key.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

/// One place of each, in that order, so that who waits for the first holds none of the others. The second value says
/// whether there was anything to wait for.
pub(super) async fn take<const N: usize>(places: [Arc<Semaphore>; N]) -> ([Place; N], bool) {
    let mut waited = false;
    let mut taken = [const { None }; N];
    for (place, semaphore) in taken.iter_mut().zip(places) {
        *place = Arc::clone(&semaphore).try_acquire_owned().ok();
        if place.is_none() {
            waited = true;
            *place = semaphore.acquire_owned().await.ok();
        }
    }
    (taken, waited)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_slow_endpoint_holds_up_nobody_else() {
        let (endpoints, all) = (Places::new(1), Arc::new(Semaphore::new(2)));
        let ask = |endpoint| take([endpoints.of(endpoint), Arc::clone(&all)]);
        let (slow, waited) = ask("slow").await;
        assert!(!waited);
        let mut next = Box::pin(ask("slow"));
        assert!(next.as_mut().now_or_never().is_none(), "the endpoint is busy");
        let (other, waited) = ask("other").await;
        assert!(!waited, "the second place in all is free");
        drop(slow);
        let (_, waited) = next.await;
        assert!(waited);
        drop(other);
    }

    #[tokio::test]
    async fn keys_that_nobody_uses_take_no_room() {
        let places = Places::new(1);
        let (held, _) = take([places.of("a")]).await;
        places.of("b");
        places.of("c");
        assert_eq!(places.by_key.lock().unwrap().len(), 2, "a is held, c was just asked for");
        drop(held);
        places.of("d");
        assert_eq!(places.by_key.lock().unwrap().len(), 1);
    }
}
