//! Limit on concurrent work, with a share for each flow of requests.

use std::{sync::Arc, time::Duration};

use machinery_auth::flow;
use machinery_client::{Shares, Slot};
use tokio::time::timeout;

/// Limit on concurrent work. One flow can have a quarter of it: a user, or the service accounts of a
/// namespace together. Priority users have no share, and an eighth is reserved for them besides.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    slots: Arc<Shares>,
    priority_users: Arc<[String]>,
}

impl Limiter {
    /// Allows `most` calls at once, at least 8.
    pub(crate) fn new(most: usize, priority_users: Arc<[String]>) -> Self {
        let most = most.max(8);
        Self { slots: Arc::new(Shares::with_reserve(most, most / 4, most / 8)), priority_users }
    }

    /// Waits for a slot; `None` when there is none within `patience`.
    pub(crate) async fn enter(&self, user: &str, patience: Duration) -> Option<Slot> {
        let slot = async {
            if self.priority_users.iter().any(|name| name == user) {
                self.slots.priority_slot(patience).await
            } else {
                self.slots.slot(flow(user), patience).await
            }
        };
        timeout(patience, slot).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn limiter() -> Limiter {
        Limiter::new(16, vec!["controller".to_owned()].into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_that_takes_all_leaves_places_for_others_and_more_for_priority_users() {
        let limiter = limiter();
        let mut taken = Vec::new();
        while let Some(slot) = limiter.enter("greedy", SOON).await {
            taken.push(slot);
        }
        assert_eq!(taken.len(), 4);
        assert!(limiter.enter("other", SOON).await.is_some());
        while let Some(slot) = limiter.enter("controller", SOON).await {
            taken.push(slot);
        }
        assert_eq!(taken.len(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn the_service_accounts_of_a_namespace_that_take_all_they_can_leave_places_for_others() {
        let limiter = limiter();
        let mut taken = Vec::new();
        for account in 0..16 {
            let user = format!("system:serviceaccount:shop:a{account}");
            taken.extend(limiter.enter(&user, SOON).await);
        }
        assert_eq!(taken.len(), 4);
        assert!(limiter.enter("jane", SOON).await.is_some());
        assert!(limiter.enter("system:serviceaccount:other:a", SOON).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_caller_waits_for_longer_than_its_patience() {
        let limiter = Limiter::new(8, Arc::default());
        let mut taken = Vec::new();
        for flow in 0..8 {
            taken.extend(limiter.enter(&format!("user-{flow}"), SOON).await);
        }
        let began = tokio::time::Instant::now();
        assert!(limiter.enter("late", SOON).await.is_none());
        assert_eq!((taken.len(), began.elapsed().as_secs()), (7, 1));
    }
}
