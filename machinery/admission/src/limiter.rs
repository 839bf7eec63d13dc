//! Limit on concurrent work, with a share for each flow of requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit on concurrent work. One flow can have a quarter of it: a user, or the service accounts of a
/// namespace together. Priority users have no share, and an eighth is reserved for them besides.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    all: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    share: usize,
    flows: Flows,
    priority_users: Arc<[String]>,
}

/// Shares in use. An unused share is forgotten, so there are no more than requests in progress.
type Flows = Arc<Mutex<HashMap<String, Arc<Semaphore>>>>;

/// Place of one call.
#[derive(Debug)]
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _own: Option<Share>,
}

/// Part of the share of a flow.
#[derive(Debug)]
struct Share {
    permit: Option<OwnedSemaphorePermit>,
    flow: String,
    flows: Flows,
}

impl Limiter {
    /// Allows `most` calls at once, at least 8.
    pub(crate) fn new(most: usize, priority_users: Arc<[String]>) -> Self {
        let most = most.max(8);
        let reserve = most / 8;
        Self {
            all: Arc::new(Semaphore::new(most - reserve)),
            reserve: Arc::new(Semaphore::new(reserve)),
            share: most / 4,
            flows: Flows::default(),
            priority_users,
        }
    }

    /// Waits for a place; `None` when there is none within `patience`.
    pub(crate) async fn enter(&self, user: &str, patience: Duration) -> Option<Place> {
        tokio::time::timeout(patience, self.wait(user)).await.ok().flatten()
    }

    async fn wait(&self, user: &str) -> Option<Place> {
        if self.priority_users.iter().any(|name| name == user) {
            // The reserve is for the time when the others have the rest.
            let all = tokio::select! {
                biased;
                all = self.all.clone().acquire_owned() => all,
                reserved = self.reserve.clone().acquire_owned() => reserved,
            };
            return Some(Place { _all: all.ok()?, _own: None });
        }
        let flow = machinery_auth::flow(user);
        let mut own = Share { permit: None, flow: flow.to_owned(), flows: self.flows.clone() };
        let share = {
            let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
            flows.entry(flow.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.share))).clone()
        };
        own.permit = share.acquire_owned().await.ok();
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Place { _all: all, _own: Some(own) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.permit = None;
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        // Waiting callers and permits in use hold the semaphore, too.
        if flows.get(&self.flow).is_some_and(|share| Arc::strong_count(share) == 1) {
            flows.remove(&self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(16, vec!["controller".to_owned()].into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_that_takes_all_leaves_places_for_others() {
        let limiter = limiter();
        let mut taken = Vec::new();
        while let Some(place) = limiter.enter("greedy", Duration::from_secs(1)).await {
            taken.push(place);
        }
        assert_eq!(taken.len(), 4);
        assert!(limiter.enter("other", Duration::from_secs(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_leave_the_reserve_for_priority_users() {
        let limiter = limiter();
        let mut taken = Vec::new();
        for user in 0..32 {
            taken.extend(limiter.enter(&format!("user-{user}"), Duration::from_secs(1)).await);
        }
        assert_eq!(taken.len(), 14);
        assert!(limiter.enter("late", Duration::from_secs(1)).await.is_none());
        assert!(limiter.enter("controller", Duration::from_secs(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn priority_users_have_the_free_places_and_the_reserve() {
        let limiter = limiter();
        let mut taken = Vec::new();
        while let Some(place) = limiter.enter("controller", Duration::from_secs(1)).await {
            taken.push(place);
        }
        assert_eq!(taken.len(), 16);
        taken.clear();
        while let Some(place) = limiter.enter("controller", Duration::from_secs(1)).await {
            taken.push(place);
        }
        assert_eq!(taken.len(), 16, "each place came back to where it was from");
    }

    #[tokio::test(start_paused = true)]
    async fn the_service_accounts_of_a_namespace_that_take_all_they_can_leave_places_for_others() {
        let limiter = limiter();
        let mut taken = Vec::new();
        for account in 0..16 {
            let user = format!("system:serviceaccount:shop:a{account}");
            taken.extend(limiter.enter(&user, Duration::from_secs(1)).await);
        }
        assert_eq!(taken.len(), 4);
        assert!(limiter.enter("jane", Duration::from_secs(1)).await.is_some());
        assert!(limiter.enter("system:serviceaccount:other:a", Duration::from_secs(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn shares_of_flows_that_left_are_forgotten() {
        let limiter = limiter();
        let place = limiter.enter("jane", Duration::from_secs(1)).await.unwrap();
        assert_eq!(limiter.flows.lock().unwrap().len(), 1);
        drop(place);
        assert!(limiter.flows.lock().unwrap().is_empty());
        let all: Vec<_> =
            futures::future::join_all((0..4).map(|_| limiter.enter("jane", Duration::MAX))).await;
        assert!(limiter.enter("jane", Duration::from_secs(1)).await.is_none(), "canceled while it waits");
        drop(all);
        assert!(limiter.flows.lock().unwrap().is_empty());
    }
}
