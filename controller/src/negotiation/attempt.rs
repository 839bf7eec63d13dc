//! Starting an attempt to evict or delete, beside the workers.

use std::sync::Arc;

use evacuation_api::Evacuation;
use evacuation_protocol::World;
use tokio::time::Instant;
use tracing::info;

use super::turn::budget_of;
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    evictor::{AttemptId, Manner, Order, turn_end},
    metrics::outcome_label,
};

impl Controller {
    /// Posts an attempt that is recorded, once, and has its outcome recorded when it is there.
    pub(super) fn start_attempt(
        self: &Arc<Self>,
        key: &ObjectKey,
        evacuation: &Evacuation,
        world: &World,
        manner: Manner,
        grace_period_seconds: Option<i64>,
    ) {
        let id = AttemptId::last(evacuation);
        let Some(until) = self.attempts.post(key, &id) else {
            return;
        };
        let target = &evacuation.spec.target.pod;
        let order = Order {
            manner,
            pod: ObjectKey::new(key.namespace.clone(), target.name.clone()),
            uid: target.uid.clone().unwrap_or_default(),
            grace_period_seconds,
            budgets: world.budgets.iter().map(|budget| budget.name.clone()).collect(),
        };
        let lane = (manner == Manner::Evict).then(|| budget_of(key, world)).flatten();
        let (controller, key, term) = (Arc::clone(self), key.clone(), self.term());
        tokio::spawn(async move {
            let posted = controller.evictor.post(
                &controller.client,
                &controller.leadership,
                &order,
                lane.as_ref(),
                until,
            );
            let outcome = tokio::select! {
                () = term.cancelled() => return,
                outcome = posted => outcome,
            };
            info!(evacuation = %key, pod = %order.pod, ?outcome, "an attempt is over");
            controller.metrics.evictions.get_or_create(&outcome_label(outcome.as_ref())).inc();
            let woken = lock(&controller.turns).finished(&key, turn_end(outcome.as_ref()), Instant::now());
            controller.attempts.over(&key, &id, outcome);
            controller.queue.add(key);
            controller.wake(woken);
        });
    }
}
