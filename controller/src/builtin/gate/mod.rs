//! `gate.evacuation.dev/condition`: waits until a condition or an annotation of the pod says that it may go.
//!
//! # Flow
//!
//! The responder writes the annotation `gate.evacuation.dev/asked`, which the app can read from a
//! downward-API volume. It delays until the app's own tooling opens the gate, then accepts.
//! `gate.evacuation.dev/open: "false"` refuses. The responder removes the annotation when no Evacuation asks
//! any more.

mod plan;

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{Evacuation, GATE_ASKED_ANNOTATION, GATE_RESPONDER};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use super::{
    interest::{Interest, deleted_evacuation},
    is_expected,
    part::Part,
    patch::Patcher,
    rehearsal::awaited,
    reply::Replier,
};
use crate::cluster::{
    CallError, Cluster, ClusterEvent, Feature, Kind, ObjectKey, Requeue, ServerClock, View, WorkQueue, call,
    due, evacuations,
};

/// Pods that the responder must look at.
const INTEREST: Interest = Interest { responder: GATE_RESPONDER, is_marked: carries_annotation };

/// The feature that plays the responder.
pub(crate) struct Gate {
    client: Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    patcher: Patcher,
    replier: Replier,
    queue: WorkQueue<ObjectKey>,
}

impl Gate {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            client: cluster.client.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            patcher: Patcher::new(cluster),
            replier: Replier::new(cluster),
            queue: WorkQueue::default(),
        })
    }

    /// Returns the Evacuation that a pod's annotation names. The API is read if the watch, which can be late,
    /// has not shown it.
    async fn named_evacuation(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        known: &[Arc<Evacuation>],
    ) -> Result<Option<Arc<Evacuation>>, CallError> {
        let annotations = pod.metadata.annotations.as_ref();
        let Some(name) = annotations.and_then(|all| all.get(GATE_ASKED_ANNOTATION)) else {
            return Ok(None);
        };
        if known.iter().any(|e| e.metadata.name.as_ref() == Some(name)) {
            return Ok(None);
        }
        let action = format!("read evacuation {}/{name}", key.namespace);
        let found = call(action, evacuations(&self.client, &key.namespace).get_opt(name)).await?;
        Ok(found.map(Arc::new))
    }
}

#[async_trait]
impl Feature for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let Some(uid) = deleted_evacuation(event) {
            self.replier.forget(uid);
        }
        self.queue.add_all(INTEREST.concerned(&self.view, event));
    }

    fn resync(&self) {
        self.queue.add_all(INTEREST.all(&self.view));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let (pod, mut evacuations) = {
            let index = self.view.index();
            (index.pod(key), index.evacuations_of(key))
        };
        if let Some(pod) = &pod {
            evacuations.extend(self.named_evacuation(key, pod, &evacuations).await?);
        }
        let now = self.clock.now();
        let plan = match &pod {
            Some(pod) => plan::plan(pod, evacuations.iter().map(AsRef::as_ref), now),
            None => plan::GatePlan::default(),
        };
        if let (Some(pod), Some(change)) = (&pod, &plan.change) {
            self.patcher.patch(pod, change).await?;
            return Ok(Requeue::Now);
        }
        let parts = || evacuations.iter().filter_map(|e| Part::of(e, GATE_RESPONDER));
        let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
        if let Some(reply) = plan.reply
            && let Some(part) = parts().find(|part| part.targets(uid) && part.is_active())
        {
            self.replier.post(part, reply).await?;
        }
        let rehearsals = self.view.index().rehearsals_of(key);
        if let Some(part) = awaited(&rehearsals, GATE_RESPONDER, pod.as_deref())
            && let Some(pod) = &pod
            && let Some(reply) = plan::plan(pod, [part.evacuation], now).reply
        {
            self.replier.post(part, reply).await?;
        }
        // By now the annotation is removed. A requester that waits for the acknowledgement finds the pod as
        // it was.
        self.replier.acknowledge(&evacuations, GATE_RESPONDER).await?;
        self.replier.acknowledge(&rehearsals, GATE_RESPONDER).await?;
        Ok(plan.wake_at.map(|time| due(time, self.clock.now())).into())
    }

    fn is_expected(&self, error: &CallError) -> bool {
        is_expected(error)
    }
}

/// Returns true for a pod that carries the annotation.
fn carries_annotation(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(GATE_ASKED_ANNOTATION))
}
