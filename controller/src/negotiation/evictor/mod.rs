//! The evictor, the last in every chain: whose turn it is, the fence around each attempt, and the request.

mod attempts;
mod budget_queue;
mod post;
mod sightings;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use evacuation_protocol::EvictionOutcome;
use kube::Client;
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore},
    time::{Instant, timeout_at},
};

pub(crate) use attempts::{AttemptId, Attempts};
pub(crate) use budget_queue::{BudgetQueues, BudgetStatus, Turn, TurnEnd};
use post::Timeouts;
pub(crate) use post::{Manner, Order};
pub(crate) use sightings::Sightings;

use crate::cluster::{Leadership, ObjectKey};

/// Maximum number of evictions and deletions under way, over all budgets.
const AT_ONCE: usize = 64;

/// Posts evictions and deletions: those of one budget one after another, for parallel ones collide on the
/// budget's status in the API and time out there.
#[derive(Debug)]
pub(crate) struct Evictor {
    lanes: Mutex<HashMap<ObjectKey, Arc<AsyncMutex<()>>>>,
    slots: Semaphore,
}

impl Default for Evictor {
    fn default() -> Self {
        Self { lanes: Mutex::default(), slots: Semaphore::new(AT_ONCE) }
    }
}

impl Evictor {
    /// Posts an attempt that is recorded, in the lane of `budget`. Returns its outcome, or `None` when it is
    /// not known. It takes effect before `until` or never.
    pub(crate) async fn post(
        &self,
        client: &Client,
        leadership: &Leadership,
        order: &Order,
        budget: Option<&ObjectKey>,
        until: Instant,
    ) -> Option<EvictionOutcome> {
        let lane = budget.map(|budget| self.lane(budget));
        let latest = until.checked_sub(Timeouts::least()).unwrap_or(until);
        let waited = timeout_at(latest, async {
            let lane = match &lane {
                Some(lane) => Some(lane.lock().await),
                None => None,
            };
            // Last: whoever waits for its lane leaves the slots to others.
            (lane, self.slots.acquire().await.ok())
        });
        let Ok(_held) = waited.await else {
            return Some(EvictionOutcome::NotTaken);
        };
        if leadership.check().is_err() {
            return None;
        }
        let Some(timeouts) = Timeouts::within(until.saturating_duration_since(Instant::now())) else {
            return Some(EvictionOutcome::NotTaken);
        };
        post::post(client, order, timeouts).await
    }

    fn lane(&self, budget: &ObjectKey) -> Arc<AsyncMutex<()>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|key, lane| key == budget || Arc::strong_count(lane) > 1);
        Arc::clone(lanes.entry(budget.clone()).or_default())
    }
}

/// Returns how an attempt counts against its budget.
pub(crate) fn turn_end(outcome: Option<&EvictionOutcome>) -> TurnEnd {
    match outcome {
        // One of which nothing is known may have been carried out.
        None | Some(EvictionOutcome::Accepted) => TurnEnd::Accepted,
        Some(EvictionOutcome::BudgetExhausted { .. } | EvictionOutcome::MultipleBudgets { .. }) => {
            TurnEnd::BudgetExhausted
        }
        Some(
            EvictionOutcome::Rejected { .. }
            | EvictionOutcome::PodGone
            | EvictionOutcome::UidMismatch
            | EvictionOutcome::NotTaken,
        ) => TurnEnd::Other,
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use tower_test::mock;

    use super::*;

    fn order(pod: &str) -> Order {
        Order {
            manner: Manner::Evict,
            pod: ObjectKey::new("ns", pod),
            uid: "p1".to_owned(),
            grace_period_seconds: None,
            budgets: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rule_8_however_many_pods_of_a_budget_wait_another_pod_is_evicted() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let client = Client::new(service, "default");
        let evictor = Arc::new(Evictor::default());
        let until = Instant::now() + std::time::Duration::from_secs(9);
        let post = |pod: String, budget: Option<ObjectKey>| {
            let (evictor, client) = (Arc::clone(&evictor), client.clone());
            tokio::spawn(async move {
                let leadership = Leadership::alone();
                evictor.post(&client, &leadership, &order(&pod), budget.as_ref(), until).await
            })
        };
        let held: Vec<_> =
            (0..=AT_ONCE).map(|at| post(format!("held-{at}"), Some(ObjectKey::new("ns", "slow")))).collect();
        let (first, _unanswered) = handle.next_request().await.expect("the first of the budget");
        assert!(first.uri().path().contains("/pods/held-"), "{}", first.uri());
        let other = post("other".to_owned(), None);
        let (second, _unanswered) = handle.next_request().await.expect("the other pod");
        assert!(second.uri().path().contains("/pods/other/"), "{}", second.uri());
        held.iter().chain([&other]).for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_whose_time_is_over_is_not_posted_although_nothing_holds_it_back() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let (client, leadership) = (Client::new(service, "default"), Leadership::alone());
        let outcome = Evictor::default().post(&client, &leadership, &order("p"), None, Instant::now()).await;
        assert_eq!(outcome, Some(EvictionOutcome::NotTaken));
        drop(client);
        assert!(handle.next_request().await.is_none(), "nothing was asked of the API");
    }
}
