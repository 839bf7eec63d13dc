//! Start of an attempt to evict or delete. A task of its own posts it.

use std::sync::Arc;

use evacuation_api::Evacuation;
use evacuation_protocol::World;
use kube::Client;
use tracing::info;

use super::{
    evictor::{AttemptId, Attempts, Evictor, Manner, Order, Posted, turn_end},
    gate::Gate,
    metrics::{NegotiationMetrics, outcome_label},
};
use crate::cluster::{Cluster, Leadership, ObjectKey, Term, WorkQueue};

/// Starter of the attempts to evict or delete.
pub(super) struct AttemptStarter {
    client: Client,
    leadership: Leadership,
    term: Arc<Term>,
    evictor: Evictor,
    attempts: Arc<Attempts>,
    gate: Arc<Gate>,
    metrics: NegotiationMetrics,
    queue: Arc<WorkQueue<ObjectKey>>,
}

impl AttemptStarter {
    /// Returns a starter that queues an Evacuation when its attempt is over.
    pub(super) fn new(
        cluster: &Cluster,
        attempts: Arc<Attempts>,
        gate: Arc<Gate>,
        metrics: NegotiationMetrics,
        queue: Arc<WorkQueue<ObjectKey>>,
    ) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            term: Arc::clone(&cluster.term),
            evictor: Evictor::default(),
            attempts,
            gate,
            metrics,
            queue,
        }
    }

    /// Posts an attempt that is recorded, once, and queues the Evacuation when the outcome is known.
    pub(super) fn start(
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
        let (starter, key, term) = (Arc::clone(self), key.clone(), self.term.token());
        tokio::spawn(async move {
            let posted = starter.evictor.post(&starter.client, &starter.leadership, &order, until);
            let Posted { outcome, took } = tokio::select! {
                () = term.cancelled() => return,
                posted = posted => posted,
            };
            info!(evacuation = %key, pod = %order.pod, ?outcome, ?took, "attempt to evict or delete ended");
            starter.metrics.evictions.get_or_create(&outcome_label(outcome.as_ref())).inc();
            let end = turn_end(outcome.as_ref());
            // In this order: until the attempt is over, nothing decides on another, which would go by this
            // one's place and turn.
            starter.gate.finished(&key, end, took);
            starter.attempts.over(&key, &id, outcome);
            starter.queue.add(key);
        });
    }
}
