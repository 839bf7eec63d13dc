//! Names the pods that somebody deleted although their app was never asked.
//!
//! # Flow
//!
//! A pod that registers responders begins to terminate, or is gone at once. When no Evacuation of it exists,
//! or only those whose responders wait for their turn, its caller passed the gateway: by the gateway's rules,
//! or because the gateway was down, slow or not asked. The controller does not see which. A worker publishes
//! a Warning Event on the pod and counts it.
//!
//! # Guarantees
//!
//! Pods that have ended, and those of a namespace that is being deleted, are not named. At most
//! [`MAX_WAITING`] pods wait to be named. A pod that was deleted while no controller ran is not named.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::{Evacuation, ResponderState, ResponderStatus};
use evacuation_protocol::{LivePod, PodPhase, registered_responders};
use k8s_openapi::api::core::v1::Pod;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue, View,
    WorkQueue, WorkerSettings, lock,
};

/// Maximum number of pods that wait to be named.
const MAX_WAITING: usize = 1000;
/// Time after its deletion in which a pod is named. A process that begins to lead names those that the last
/// leader may have missed.
const NAMED_WITHIN: Duration = Duration::from_secs(30);
/// Reason of the Event.
const REASON: &str = "DeletedUnasked";
/// Message of the Event. A gateway that lets a call pass publishes Events of its own.
const NOTE: &str = "the pod was deleted, and its responders were not asked. Possible causes: the gateway \
                    lets its caller, its namespace or a forced deletion pass; it could not ask in an outage; \
                    or the deletion did not reach a gateway. An Event of the gateway on the pod, such as \
                    DeletionForced or PassedUnasked, names the cause if there is one";

/// The feature that names pods whose apps were not asked. Its keys are pods.
pub(crate) struct Unasked {
    view: Arc<View>,
    events: EventSink,
    pods: Counter,
    queue: WorkQueue<ObjectKey>,
    /// The pods that were deleted, as they were last seen, and the time.
    deleted: Mutex<HashMap<ObjectKey, (Arc<Pod>, Instant)>>,
}

impl Unasked {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        let pods = Counter::default();
        let help = "Pods that were deleted although their responders were not asked";
        cluster.metrics.register("pods_deleted_unasked", help, &pods);
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            events: cluster.events.clone(),
            pods,
            queue: WorkQueue::default(),
            deleted: Mutex::default(),
        })
    }

    /// Keeps a pod that begins to terminate, or is gone without that.
    fn observe(&self, change: &Change<Pod>) {
        let Some(pod) = deletion(change) else { return };
        let (now, mut deleted) = (Instant::now(), lock(&self.deleted));
        if deleted.len() >= MAX_WAITING {
            deleted.retain(|_, (_, since)| now < *since + NAMED_WITHIN);
        }
        if deleted.len() < MAX_WAITING {
            deleted.insert(change.key.clone(), (Arc::clone(pod), now));
            self.queue.add(change.key.clone());
        }
    }

    /// Returns true when an Evacuation of this very pod asked its responders, passed over them or evicts it.
    fn was_asked(&self, key: &ObjectKey, pod: &Pod) -> bool {
        let uid = pod.metadata.uid.as_ref();
        let of_pod = self.view.index().evacuations_of(key);
        let is_its = |evacuation: &&Arc<Evacuation>| evacuation.spec.target.pod.uid.as_ref() == uid;
        of_pod.iter().filter(is_its).any(|evacuation| !is_in_line(evacuation))
    }

    fn is_namespace_going(&self, name: &str) -> bool {
        let index = self.view.index();
        index.namespace(name).is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some())
    }
}

/// Returns true for an Evacuation all of whose responders wait for their turn, or waited until it ended.
fn is_in_line(evacuation: &Evacuation) -> bool {
    let Some(status) = &evacuation.status else { return false };
    let waits = |responder: &ResponderStatus| {
        matches!(responder.state, ResponderState::Inactive | ResponderState::Canceled)
            && responder.active_time.is_none()
    };
    let is_tried =
        status.eviction.as_ref().is_some_and(|eviction| eviction.in_flight || eviction.attempts > 0);
    let responders = status.responders.as_deref().unwrap_or_default();
    !responders.is_empty() && responders.iter().all(waits) && !is_tried
}

/// Returns the pod of a change by which its deletion begins, if its app registered responders and it has not
/// ended.
fn deletion(change: &Change<Pod>) -> Option<&Arc<Pod>> {
    let old = change.old.as_ref().filter(|old| old.metadata.deletion_timestamp.is_none())?;
    let same = |new: &&Arc<Pod>| new.metadata.uid == old.metadata.uid;
    let goes = change.new.as_ref().filter(same).is_none_or(|new| new.metadata.deletion_timestamp.is_some());
    let runs = LivePod::of(old).phase != PodPhase::Terminal;
    let registered = || {
        let registered = registered_responders(old, []);
        registered.unreadable.is_some() || !registered.entries.is_empty()
    };
    (goes && runs && registered()).then_some(old)
}

#[async_trait]
impl Feature for Unasked {
    fn name(&self) -> &'static str {
        "unasked"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Pods, Kind::Evacuations, Kind::Namespaces]
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 1, ..WorkerSettings::default() }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let ClusterEvent::Pod(change) = event {
            self.observe(change);
        }
    }

    fn resync(&self) {
        let deleted: Vec<ObjectKey> = lock(&self.deleted).keys().cloned().collect();
        self.queue.add_all(deleted);
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let deleted = lock(&self.deleted).remove(key);
        let Some((pod, since)) = deleted else { return Ok(Requeue::OnEvent) };
        if Instant::now() >= since + NAMED_WITHIN {
            // Another process led then.
            return Ok(Requeue::OnEvent);
        }
        if self.was_asked(key, &pod) || self.is_namespace_going(&key.namespace) {
            return Ok(Requeue::OnEvent);
        }
        self.pods.inc();
        self.events.send_about_pod(&pod, Notice::warning(REASON, NOTE.to_owned()));
        Ok(Requeue::OnEvent)
    }
}
