//! The evictor, the last in every chain: whose turn it is, the fence around each attempt, and the request.

mod attempts;
mod post;
mod sightings;
mod turns;

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

pub(crate) use attempts::Attempts;
pub(crate) use post::{Manner, Order};
pub(crate) use sightings::Sightings;
pub(crate) use turns::{BudgetStatus, Turn, TurnEnd, Turns};

use crate::{Leadership, ObjectKey};

/// How many evictions and deletions are posted at once, over all budgets.
const AT_ONCE: usize = 64;

/// Posts evictions and deletions: those of one budget one after another, for parallel ones collide on the budget's status in the
/// API and time out there.
#[derive(Debug)]
pub(crate) struct Evictor {
    lanes: Mutex<HashMap<ObjectKey, Arc<AsyncMutex<()>>>>,
    slots: Semaphore,
}

impl Default for Evictor {
    fn default() -> Self {
        Self {
            lanes: Mutex::default(),
            slots: Semaphore::new(AT_ONCE),
        }
    }
}

impl Evictor {
    /// Posts an attempt that is recorded, in the lane of `budget`. Returns its outcome, or `None` when it is not known.
    /// It is over at `until`, or never posted.
    pub(crate) async fn post(
        &self,
        client: &Client,
        leadership: &Leadership,
        order: &Order,
        budget: Option<&ObjectKey>,
        until: Instant,
    ) -> Option<EvictionOutcome> {
        let lane = budget.map(|budget| self.lane(budget));
        let waited = timeout_at(until, async {
            let slot = self.slots.acquire().await.ok();
            let lane = match &lane {
                Some(lane) => Some(lane.lock().await),
                None => None,
            };
            (slot, lane)
        });
        let Ok(_held) = waited.await else {
            return Some(EvictionOutcome::NotTaken);
        };
        if leadership.check().is_err() {
            return None;
        }
        post::post(client, order, until.saturating_duration_since(Instant::now())).await
    }

    fn lane(&self, budget: &ObjectKey) -> Arc<AsyncMutex<()>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|key, lane| key == budget || Arc::strong_count(lane) > 1);
        Arc::clone(lanes.entry(budget.clone()).or_default())
    }
}

/// How an attempt counts against its budget.
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
