//! Bounds on the calls that wait for the API at the same time, with a share for each user.

use std::{sync::Arc, time::Duration};

use moka::sync::Cache;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Maximum number of calls that wait for the API. Each has a connection of its own, and more connections
/// would only make all of them late.
const CALLS: usize = 64;
/// Maximum number of one user's: a quarter, so that no user holds up another.
const CALLS_OF_USER: usize = CALLS / 4;
/// Maximum number of users that are remembered.
const USERS: u64 = 10_000;
/// Time for which an idle user is remembered.
const IDLE: Duration = Duration::from_mins(1);

/// Permission to wait for the API. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _of_user: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Reason for which there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// The user has too many calls in progress.
    User,
    /// All users together have too many calls in progress.
    All,
}

/// The bounds.
#[derive(Debug)]
pub(crate) struct Limiter {
    all: Arc<Semaphore>,
    users: Cache<String, Arc<Semaphore>>,
    of_user: usize,
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new(CALLS, CALLS_OF_USER)
    }
}

impl Limiter {
    fn new(all: usize, of_user: usize) -> Self {
        let users = Cache::builder().max_capacity(USERS).time_to_idle(IDLE).build();
        Self { all: Arc::new(Semaphore::new(all)), users, of_user }
    }

    /// Returns true while the user has more than a quarter of its share in progress.
    pub(crate) fn is_crowded(&self, user: &str) -> bool {
        let in_progress = |share: Arc<Semaphore>| self.of_user.saturating_sub(share.available_permits());
        self.users.get(user).is_some_and(|share| in_progress(share) > self.of_user / 4)
    }

    /// Waits for a slot for that user, at most for `patience`.
    pub(crate) async fn slot(&self, user: &str, patience: Duration) -> Result<Slot, NoSlot> {
        let share = self.users.get_with_by_ref(user, || Arc::new(Semaphore::new(self.of_user)));
        // Neither semaphore is ever closed.
        let of_user = timeout(patience, share.acquire_owned()).await.ok().and_then(Result::ok);
        let of_user = of_user.ok_or(NoSlot::User)?;
        let of_all = timeout(patience, Arc::clone(&self.all).acquire_owned()).await.ok().and_then(Result::ok);
        Ok(Slot { _of_user: of_user, _of_all: of_all.ok_or(NoSlot::All)? })
    }
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
        assert_eq!(limiter.slot("mallory", SOON).await.unwrap_err(), NoSlot::User);
        limiter.slot("alice", SOON).await.unwrap();
        drop(first);
        limiter.slot("mallory", SOON).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_users_together_are_bounded() {
        let limiter = Limiter::new(2, 1);
        let _slots = [limiter.slot("a", SOON).await.unwrap(), limiter.slot("b", SOON).await.unwrap()];
        assert_eq!(limiter.slot("c", SOON).await.unwrap_err(), NoSlot::All);
    }
}
