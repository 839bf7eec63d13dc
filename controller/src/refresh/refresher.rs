//! The feature: namespaces in which a pod may have to be refreshed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use super::{
    Limits, RefreshOptions,
    crash_loop::is_crash_looping,
    history::{outcome, owner_uid},
    hold_reporter::HoldReporter,
    opt_in::{OptIn, opt_in},
    planner::Planner,
    requests::Requests,
};
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, Feature, Kind, Leadership, ObjectKey, Requeue, ServerClock,
    View, WorkQueue, WorkerSettings, due, is_finished, lock,
};

/// Shortest and longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Ratio of the worker's rest to the time that deciding took, so that a large namespace with many changes
/// costs little.
const REST: u32 = 4;

/// The feature that asks pods in a crash loop to move. Its keys are namespaces.
pub(crate) struct Refresher {
    view: Arc<View>,
    clock: Arc<ServerClock>,
    leadership: Leadership,
    planner: Arc<Planner>,
    requests: Requests,
    holds: HoldReporter,
    queue: WorkQueue<ObjectKey>,
    /// Time that the last decision took.
    spent: Mutex<Duration>,
}

impl Refresher {
    /// Returns the feature with the limits of the command line.
    pub(crate) fn new(cluster: &Cluster, options: &RefreshOptions) -> Arc<Self> {
        let planner = Arc::new(Planner::new(Limits::from(options), Arc::clone(&cluster.view)));
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            leadership: cluster.leadership.clone(),
            requests: Requests::new(cluster, Arc::clone(&planner)),
            planner,
            holds: HoldReporter::new(cluster),
            queue: WorkQueue::default(),
            spent: Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn requests(&self) -> &Requests {
        &self.requests
    }

    fn wake(&self, namespace: &str) {
        self.queue.add(ObjectKey::new("", namespace));
    }

    /// Queues the namespace of a pod that is or was in a crash loop or cannot be read, and opted in. Queues
    /// it for any pod where something is pending.
    fn observe_pod(&self, change: &Change<Pod>) {
        let namespace = &change.key.namespace;
        let matters = |pod: &Pod| {
            let known = self.view.index().namespace(namespace).cloned();
            match opt_in(&pod.metadata, known.as_deref().map(|known| &known.metadata)) {
                OptIn::LeaveAlone => false,
                OptIn::Refresh(_) => is_crash_looping(pod),
                OptIn::Unreadable(_) => true,
            }
        };
        if self.planner.is_pending(namespace)
            || [&change.old, &change.new].into_iter().flatten().any(|pod| matters(pod))
        {
            self.wake(namespace);
        }
    }

    /// Queues the namespace of the requester's own Evacuations, and of others' when one of a pod in a crash
    /// loop begins or ends.
    fn observe_evacuation(&self, change: &Change<Evacuation>) {
        let finished = |evacuation: Option<&Evacuation>| evacuation.is_none_or(is_finished);
        let (was, is) = (finished(change.old.as_deref()), finished(change.new.as_deref()));
        let Some(evacuation) = change.new.as_deref().or(change.old.as_deref()) else {
            return;
        };
        let own = owner_uid(evacuation).is_some();
        let leads = self.leadership.check().is_ok();
        if own && leads && change.old.is_some() && change.new.is_some() && is && !was {
            self.requests.count(outcome(evacuation));
        }
        let target = ObjectKey::new(change.key.namespace.clone(), evacuation.spec.target.pod.name.clone());
        let looping = || self.view.index().pod(&target).is_some_and(|pod| is_crash_looping(&pod));
        if own || (was != is && looping()) {
            self.wake(&change.key.namespace);
        }
    }

    /// Queues a namespace whose labels or annotations changed.
    fn observe_namespace(&self, change: &Change<PartialObjectMeta<Namespace>>) {
        let said = |namespace: &PartialObjectMeta<Namespace>| {
            (namespace.metadata.labels.clone(), namespace.metadata.annotations.clone())
        };
        if change.old.as_deref().map(said) != change.new.as_deref().map(said) {
            self.wake(&change.key.name);
        }
    }
}

#[async_trait]
impl Feature for Refresher {
    fn name(&self) -> &'static str {
        "refresh"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods, Kind::Namespaces, Kind::ReplicaSets]
    }

    /// Without the rights to watch namespaces and ReplicaSets the other features act.
    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 1, pause: PAUSE }
    }

    fn rest(&self) -> Duration {
        *lock(&self.spent) * REST
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        match event {
            ClusterEvent::Evacuation(change) => self.observe_evacuation(change),
            ClusterEvent::Pod(change) => self.observe_pod(change),
            ClusterEvent::Namespace(change) => self.observe_namespace(change),
            // A pod may wait for its ReplicaSet to be listed.
            ClusterEvent::ReplicaSet(change) if self.planner.is_pending(&change.key.namespace) => {
                self.wake(&change.key.namespace);
            }
            ClusterEvent::ReplicaSet(_)
            | ClusterEvent::Budget(_)
            | ClusterEvent::Node(_)
            | ClusterEvent::NodeEvacuation(_)
            | ClusterEvent::NodeEvacuationRule(_)
            | ClusterEvent::Affected(_) => {}
        }
    }

    fn resync(&self) {
        let names: Vec<String> = self.view.index().namespace_names().map(str::to_owned).collect();
        for name in names {
            self.wake(&name);
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let (began, now) = (Instant::now(), self.clock.now());
        let decision = self.planner.decide(&key.name, now);
        *lock(&self.spent) = began.elapsed();
        self.holds.report(&key.name, &decision);
        if !self.requests.act(&key.name, &decision).await? {
            self.queue.add(key.clone());
        }
        Ok(decision.wake_at.map(|time| due(time, now)).into())
    }

    fn end_term(&self) {
        self.planner.clear();
        self.holds.clear();
    }
}
