//! The evictor, the last in every chain: whose turn it is, the fence around each attempt, and the request.

mod attempts;
mod budget_queue;
mod pace;
mod post;
mod sightings;
mod slots;

use std::{sync::Arc, time::Duration};

use evacuation_protocol::EvictionOutcome;
use kube::Client;
use tokio::time::{Instant, timeout, timeout_at};

pub(crate) use attempts::{AttemptId, Attempts};
pub(crate) use budget_queue::{BudgetQueues, BudgetStatus, Turn, TurnEnd};
use pace::SLOW;
use post::Timeouts;
pub(crate) use post::{Manner, Order};
pub(crate) use sightings::Sightings;
pub(crate) use slots::Slots;

use super::limiter::{Limiter, Permit};
use crate::cluster::{Leadership, ObjectKey};

/// Maximum number of evictions that begin at a time, over all budgets.
const STARTS_AT_ONCE: usize = 256;
/// Time for which an eviction keeps others of its budget from being posted. Two calls that write the status
/// of one budget at a time collide, and the kube-apiserver lets one sleep 0.5 s. A call that takes longer
/// than this sleeps already, and does not collide.
const START: Duration = Duration::from_millis(50);

/// Posts evictions and deletions. [`Slots`] limits their number. Those of one budget collide on its status in
/// the API. So [`BudgetQueues`] keeps their number small, and here they start one after the other.
#[derive(Debug)]
pub(crate) struct Evictor {
    /// One permit a budget, for a call that has just begun.
    starts: Arc<Limiter<ObjectKey>>,
}

/// An attempt that is over.
#[derive(Debug)]
pub(crate) struct Posted {
    /// Its outcome; `None` when it is not known.
    pub(crate) outcome: Option<EvictionOutcome>,
    /// The duration of the call, as far as it tells of the budget; `None` when it does not.
    pub(crate) took: Option<Duration>,
}

impl From<Option<EvictionOutcome>> for Posted {
    fn from(outcome: Option<EvictionOutcome>) -> Self {
        Self { outcome, took: None }
    }
}

impl Default for Evictor {
    fn default() -> Self {
        Self { starts: Limiter::new(STARTS_AT_ONCE, 1) }
    }
}

impl Evictor {
    /// Posts an attempt that is recorded. It takes effect before `until` or never.
    pub(crate) async fn post(
        &self,
        client: &Client,
        leadership: &Leadership,
        order: &Order,
        until: Instant,
    ) -> Posted {
        let latest = until.checked_sub(Timeouts::least()).unwrap_or(until);
        let Ok(start) = timeout_at(latest, self.start(order)).await else {
            return Some(EvictionOutcome::NotTaken).into();
        };
        if leadership.check().is_err() {
            return None.into();
        }
        let Some(timeouts) = Timeouts::within(until.saturating_duration_since(Instant::now())) else {
            return Some(EvictionOutcome::NotTaken).into();
        };
        let began = Instant::now();
        let mut call = std::pin::pin!(post::post(client, order, timeouts));
        let outcome = if let Ok(outcome) = timeout(START, &mut call).await {
            outcome
        } else {
            drop(start);
            call.await
        };
        let took = telling(outcome.as_ref(), began.elapsed());
        Posted { outcome, took }
    }

    /// Waits until no call of the pod's budget has just begun. A deletion, and an eviction without a budget,
    /// collide with none.
    async fn start(&self, order: &Order) -> Option<Permit<ObjectKey>> {
        let budget = order.budgets.first().filter(|_| order.manner == Manner::Evict)?;
        let namespace = &order.pod.namespace;
        let (permit, _) = self.starts.acquire(namespace, ObjectKey::new(namespace, budget)).await;
        Some(permit)
    }
}

/// Returns the duration of a call that got as far as the budget. One without a reply counts as slow, however
/// soon it ended: its timeout may have been short.
fn telling(outcome: Option<&EvictionOutcome>, took: Duration) -> Option<Duration> {
    match outcome {
        Some(EvictionOutcome::Accepted | EvictionOutcome::BudgetExhausted { .. }) => Some(took),
        None => Some(took.max(SLOW)),
        Some(_) => None,
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

    #[test]
    fn only_a_quick_reply_about_the_budget_lets_more_evictions_go() {
        let quick = Duration::from_millis(1);
        assert_eq!(telling(Some(&EvictionOutcome::Accepted), quick), Some(quick));
        assert_eq!(telling(None, quick), Some(SLOW), "the reply was lost");
        let denied = EvictionOutcome::Rejected { retry_after_seconds: None, message: "no".to_owned() };
        assert_eq!(telling(Some(&denied), quick), None, "by a webhook, or for too many requests");
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_of_one_budget_start_one_after_the_other_and_a_slow_one_holds_up_no_other() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let client = Client::new(service, "default");
        let evictor = Arc::new(Evictor::default());
        let until = Instant::now() + Duration::from_secs(9);
        let began = Instant::now();
        let calls: Vec<_> = ["a", "b", "c"]
            .map(|pod| Order { budgets: vec!["web".to_owned()], ..order(pod) })
            .map(|order| {
                let (evictor, client) = (Arc::clone(&evictor), client.clone());
                tokio::spawn(async move { evictor.post(&client, &Leadership::alone(), &order, until).await })
            })
            .into();
        let (_, _unanswered) = handle.next_request().await.expect("the first");
        assert_eq!(began.elapsed(), Duration::ZERO);
        let (_, second) = handle.next_request().await.expect("the second");
        assert_eq!(began.elapsed(), START, "the first is slow");
        second.send_response(http::Response::builder().status(201).body(Body::empty()).unwrap());
        let (_, _unanswered) = handle.next_request().await.expect("the third");
        assert_eq!(began.elapsed(), START, "the second is over");
        calls.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_whose_time_is_over_is_not_posted_although_nothing_holds_it_back() {
        let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
        let (client, leadership) = (Client::new(service, "default"), Leadership::alone());
        let outcome =
            Evictor::default().post(&client, &leadership, &order("p"), Instant::now()).await.outcome;
        assert_eq!(outcome, Some(EvictionOutcome::NotTaken));
        drop(client);
        assert!(handle.next_request().await.is_none(), "nothing was asked of the API");
    }
}
