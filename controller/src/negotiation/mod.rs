//! The negotiation: work on one Evacuation at a time, from the first question to the eviction.
//!
//! # Flow
//!
//! [`WorldReader`](world::WorldReader) collects what the decision depends on. `evacuation_protocol::decide`
//! decides. The acts are one write of the status ([`StatusWriter`](status::StatusWriter)), a question to an
//! app ([`Asker`](question::Asker)), or an attempt to evict ([`AttemptStarter`](attempt::AttemptStarter)).
//!
//! # Guarantees
//!
//! Every write is guarded by the resourceVersion that was decided on. The object that a write
//! returned is decided on next. Every decision is in the object, so that a successor continues where this
//! process stopped.

mod act;
mod asking_room;
mod attempt;
mod evictor;
mod gate;
mod limiter;
mod metrics;
mod notice;
mod push;
mod question;
mod status;
mod world;

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Attempt, World, phase, record_eviction};
use kube::Client;
use tracing::warn;

use asking_room::AskingRoom;
use attempt::AttemptStarter;
use evictor::{AttemptId, Attempts, Sightings};
use gate::Gate;
use metrics::NegotiationMetrics;
use notice::{first_transitions, transitions};
pub(crate) use push::{Pusher, read_reply};
use question::Asker;
use status::StatusWriter;
use world::WorldReader;

use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Leadership, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, WorkerSettings, due,
};

/// The feature that negotiates and evicts.
pub(crate) struct Negotiation {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    metrics: NegotiationMetrics,
    queue: Arc<WorkQueue<ObjectKey>>,
    workers: usize,
    attempts: Arc<Attempts>,
    sightings: Sightings,
    gate: Arc<Gate>,
    asking_room: AskingRoom,
    world_reader: WorldReader,
    writer: StatusWriter,
    asker: Arc<Asker>,
    attempt_starter: Arc<AttemptStarter>,
}

impl Negotiation {
    /// Returns the feature, which works on `workers` Evacuations at once.
    pub(crate) fn new(cluster: &Cluster, pusher: Pusher, workers: usize) -> Arc<Self> {
        let metrics = NegotiationMetrics::new(&cluster.metrics);
        let queue = Arc::<WorkQueue<ObjectKey>>::default();
        let attempts = Arc::<Attempts>::default();
        let gate = Arc::new(Gate::new(cluster, Arc::clone(&queue)));
        let starter = AttemptStarter::new(
            cluster,
            Arc::clone(&attempts),
            Arc::clone(&gate),
            metrics.clone(),
            Arc::clone(&queue),
        );
        Arc::new(Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            workers,
            sightings: Sightings::default(),
            asking_room: AskingRoom::new(cluster, Arc::clone(&queue)),
            world_reader: WorldReader::new(cluster, Arc::clone(&attempts)),
            writer: StatusWriter::new(cluster, Arc::clone(&attempts)),
            asker: Arc::new(Asker::new(cluster, pusher, metrics.clone(), Arc::clone(&queue))),
            attempt_starter: Arc::new(starter),
            metrics,
            queue,
            attempts,
            gate,
        })
    }

    /// Records a change of an Evacuation, and publishes its transitions while this process leads.
    fn observe(&self, change: &Change<Evacuation>) {
        // Also on standby: an attempt in flight that was seen for its whole time is over at once when this
        // process leads.
        self.sightings.observe(&change.key, change.new.as_deref());
        if self.leadership.check().is_err() {
            return;
        }
        let Some(new) = &change.new else { return };
        let found = match &change.old {
            Some(old) => transitions(old, new),
            None => first_transitions(new, self.clock.now()),
        };
        self.metrics.delivered(change.old.as_deref(), new);
        for (transition, note) in found {
            self.metrics.count(transition, new);
            if let Some(notice) = transition.notice(note) {
                self.events.send(new, notice);
            }
        }
    }

    async fn round(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let known = self.view.index().evacuation(key);
        let Some(evacuation) = known else {
            self.forget(key);
            return Ok(Requeue::OnEvent);
        };
        if self.record_outcome(key, &evacuation).await? {
            return Ok(Requeue::Now);
        }
        let now = self.clock.now();
        let world = self.world_reader.read(key, &evacuation).await?;
        let world = World { asked: self.asker.asked(key, &evacuation), ..world };
        let (world, rest) = self.asking_room.take(key, &evacuation, world, now);
        let (decision, probe) = self.gate.decide(key, &evacuation, world.clone(), now);
        let wake_at = decision.wake_at.map(|time| due(time, now));
        let mut next = Requeue::from(wake_at).min(probe.into()).min(rest.into());
        for act in decision.acts {
            match self.act(key, &evacuation, &world, act).await? {
                Requeue::Now => return Ok(Requeue::Now),
                later => next = next.min(later),
            }
        }
        Ok(next)
    }

    /// Records the outcome of an attempt that is over. Returns true when that changed the object.
    async fn record_outcome(&self, key: &ObjectKey, evacuation: &Arc<Evacuation>) -> Result<bool, CallError> {
        let id = AttemptId::last(evacuation);
        if !in_flight(evacuation.status.as_ref()) {
            // The record of an attempt that was never posted, or whose outcome another process recorded.
            if self.attempts.outcome(key, &id).is_some() || self.attempts.view(key, &id) == Attempt::Recorded
            {
                self.attempts.forget(key);
            }
            return Ok(false);
        }
        let (Some(outcome), Some(status)) = (self.attempts.outcome(key, &id), &evacuation.status) else {
            return Ok(false);
        };
        let status = record_eviction(status, &outcome, rand::random(), self.clock.now());
        self.writer.write(key, evacuation, status).await?;
        Ok(true)
    }

    /// Forgets what was kept of an Evacuation that is gone.
    fn forget(&self, key: &ObjectKey) {
        self.attempts.forget(key);
        self.asker.forget(key);
        self.gate.leave(key);
        self.asking_room.leave(key);
    }
}

#[async_trait]
impl Feature for Negotiation {
    fn name(&self) -> &'static str {
        "negotiation"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods, Kind::Budgets, Kind::Nodes]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: self.workers, ..WorkerSettings::default() }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        self.asking_room.observe(event);
        match event {
            ClusterEvent::Evacuation(change) => self.observe(change),
            ClusterEvent::Budget(change) => self.gate.observe(change),
            ClusterEvent::Affected(keys) => self.queue.add_all(keys.iter().cloned()),
            ClusterEvent::Pod(_)
            | ClusterEvent::Node(_)
            | ClusterEvent::NodeEvacuation(_)
            | ClusterEvent::NodeEvacuationRule(_)
            | ClusterEvent::Namespace(_)
            | ClusterEvent::ReplicaSet(_) => {}
        }
    }

    fn resync(&self) {
        let keys: Vec<ObjectKey> = self.view.index().evacuations().map(|(key, _)| key.clone()).collect();
        self.queue.add_all(keys);
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let outcome = self.round(key).await;
        // An Evacuation that cannot be worked on must not hold up those behind it in its budget's queue.
        if outcome.is_err() && !self.attempts.has(key) {
            self.gate.leave(key);
            self.asking_room.leave(key);
        }
        outcome
    }

    fn collect(&self) {
        let mut phases: BTreeMap<&'static str, i64> = BTreeMap::new();
        for (_, evacuation) in self.view.index().evacuations() {
            *phases.entry(phase(evacuation).as_str()).or_default() += 1;
        }
        let queues = [
            ("ready", self.queue.ready()),
            ("scheduled", self.queue.scheduled()),
            ("asking", self.asking_room.waiting()),
            ("budget", self.gate.waiting_for_budgets()),
            ("evictor", self.gate.waiting_for_slots()),
        ];
        self.metrics.set(&phases, &queues);
    }

    /// Records the outcomes of the attempts in progress. Ends when none is left.
    async fn drain(&self) {
        loop {
            let open = self.attempts.open();
            if open.is_empty() {
                return;
            }
            for key in open {
                let known = self.view.index().evacuation(&key);
                let Some(evacuation) = known else {
                    self.attempts.forget(&key);
                    continue;
                };
                if let Err(error) = self.record_outcome(&key, &evacuation).await {
                    warn!(error = &error as &dyn Error, evacuation = %key, "the outcome was not recorded");
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn end_term(&self) {
        self.attempts.clear();
        self.asker.clear();
        self.gate.clear();
        self.asking_room.clear();
    }
}

/// Returns true while an attempt is recorded whose outcome is not.
fn in_flight(status: Option<&EvacuationStatus>) -> bool {
    status.and_then(|status| status.eviction.as_ref()).is_some_and(|eviction| eviction.in_flight)
}

fn uid(evacuation: &Evacuation) -> &str {
    evacuation.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
