//! `surge.evacuation.dev/replacement`: the replacement of a pod is ready before the pod goes, within its
//! budget, without touching `replicas`.
//!
//! # Flow
//!
//! 1. Asked: the responder takes the label `pod-template-hash` off the pod, and records that on the pod. The
//!    ReplicaSet releases the pod and makes another. Services and budgets still select the old one.
//! 2. It delays until the ReplicaSet has all its replicas available without the pod, then accepts. The budget
//!    now counts one pod more than it needs, and the pod is evicted.
//! 3. If the pod stays, the responder puts the label back. The ReplicaSet adopts the pod and deletes another,
//!    because the pod has the highest deletion cost for that time.
//!
//! # Caveats
//!
//! A ReplicaSet prefers to delete a pod that is not ready, whatever it costs. A pod that is given back and
//! not ready goes if its replacement is ready.

mod alone;
mod group;
mod look;
mod plan;
mod projections;
mod record;
mod release;
mod released;
mod situation;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, NO_REPLACEMENT_REASON, REPLACEMENT_RESPONDER};
use k8s_openapi::api::core::v1::Pod;
use prometheus_client::metrics::{counter::Counter, family::Family};

use self::{
    look::Lookup,
    plan::{SurgePlan, end_return, give_back, hold, own_timeout, release, replace},
    record::{Record, is_released},
    released::ReleasedPods,
    situation::{Situation, situation},
};
use super::{
    interest::{Interest, deleted_evacuation, states},
    is_expected,
    part::Part,
    patch::Patcher,
    rehearsal::awaited,
    reply::{Replier, Reply},
};
use crate::cluster::{
    CallError, Cluster, ClusterEvent, EventSink, Feature, Kind, Label, Notice, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, controller_of, due,
};

/// Message for requesters of a pod that is on its way back.
const RETURNING: &str = "the pod is being given back to its ReplicaSet after an earlier evacuation";

/// Pods that the responder must look at, beside those whose replacement changed.
const INTEREST: Interest = Interest { responder: REPLACEMENT_RESPONDER, is_marked: is_released };

/// The feature that plays the responder.
pub(crate) struct Surge {
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    /// Replacements made before an eviction, by their outcome.
    replacements: Family<Label, Counter>,
    lookup: Lookup,
    patcher: Patcher,
    replier: Replier,
    released: ReleasedPods,
    queue: WorkQueue<ObjectKey>,
}

impl Surge {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        let help = "Pods released for a replacement to be ready before they go, by their outcome";
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            replacements: cluster.metrics.counters("replacements", help),
            lookup: Lookup::new(cluster),
            patcher: Patcher::new(cluster),
            replier: Replier::new(cluster),
            released: ReleasedPods::default(),
            queue: WorkQueue::default(),
        })
    }
    /// Returns a pod and the Evacuations that target it, with the one that its record names.
    async fn snapshot(&self, key: &ObjectKey) -> Result<(Option<Arc<Pod>>, Vec<Arc<Evacuation>>), CallError> {
        let (pod, mut evacuations) = {
            let index = self.view.index();
            (index.pod(key), index.evacuations_of(key))
        };
        if let Some(record) = pod.as_deref().and_then(Record::of) {
            let named = Some(record.evacuation.uid.as_str());
            if !evacuations.iter().any(|e| e.metadata.uid.as_deref() == named) {
                evacuations.extend(self.lookup.evacuation(key, &record).await?);
            }
        }
        Ok((pod, evacuations))
    }

    /// Answers a rehearsal, and acknowledges its end. The pod is not released.
    async fn rehearse(&self, key: &ObjectKey, pod: Option<&Arc<Pod>>) -> Result<(), CallError> {
        let rehearsals = self.view.index().rehearsals_of(key);
        if let Some(pod) = pod
            && let Some(part) = awaited(&rehearsals, REPLACEMENT_RESPONDER, Some(pod))
        {
            let reply = match self.lookup.label(key, pod).await? {
                Ok((_, owner)) => Reply::Delay {
                    reason: "Replacing",
                    message: format!(
                        "ReplicaSet {} would make a replacement before the pod goes",
                        owner.name
                    ),
                },
                Err(obstacle) => without_replacement(&obstacle),
            };
            self.replier.post(part, reply).await?;
        }
        self.replier.acknowledge(&rehearsals, REPLACEMENT_RESPONDER).await
    }

    async fn plan(
        &self,
        key: &ObjectKey,
        pod: &Arc<Pod>,
        situation: &Situation<'_>,
        now: DateTime<Utc>,
    ) -> Result<SurgePlan, CallError> {
        Ok(match situation {
            Situation::Nothing => SurgePlan::default(),
            Situation::Refused(until) => SurgePlan { wake_at: Some(*until), ..SurgePlan::default() },
            Situation::Asked(part) => match self.lookup.label(key, pod).await? {
                Ok((label, owner)) => {
                    SurgePlan { change: Some(release(*part, label, &owner, now)), ..SurgePlan::default() }
                }
                Err(obstacle) => {
                    SurgePlan { reply: Some(without_replacement(&obstacle)), ..SurgePlan::default() }
                }
            },
            Situation::Replacing(part, record) => {
                let group = self.lookup.group(key, record).await?;
                let plan = replace(*part, pod, record, group.as_ref(), now);
                if matches!(plan.reply, Some(Reply::Accept { .. })) {
                    // The watch of pods can be late, and an acceptance binds.
                    let group = self.lookup.fresh_group(key, record).await?;
                    replace(*part, pod, record, group.as_ref(), now)
                } else {
                    plan
                }
            }
            Situation::Leaving(record) => match self.lookup.group(key, record).await? {
                // The owner is gone or wants no pods, so nothing else deletes this pod.
                None => give_back(pod, record, None),
                Some(group) if group.wants_none() => give_back(pod, record, Some(&group)),
                Some(_) => SurgePlan::default(),
            },
            Situation::GiveBack(record) => {
                let group = self.lookup.group(key, record).await?;
                give_back(pod, record, group.as_ref())
            }
            Situation::Returning(record) => {
                let group = self.lookup.group(key, record).await?;
                let plan = end_return(pod, record, group.as_ref(), now);
                match (&plan.change, group) {
                    // The watch of pods can be late. The deletion cost must hold until the ReplicaSet has
                    // chosen.
                    (Some(_), Some(_)) => {
                        let group = self.lookup.fresh_group(key, record).await?;
                        end_return(pod, record, group.as_ref(), now)
                    }
                    _ => plan,
                }
            }
        })
    }

    async fn reply_counted(&self, part: Part<'_>, reply: Reply) -> Result<(), CallError> {
        let outcome = match reply {
            Reply::Accept { reason, .. } if reason == NO_REPLACEMENT_REASON => Some("impossible"),
            Reply::Accept { .. } => Some("ready"),
            Reply::Refuse { .. } => Some("failed"),
            Reply::Delay { .. } | Reply::Acknowledge => None,
        };
        self.replier.post(part, reply).await?;
        if let Some(outcome) = outcome {
            self.count_replacement(outcome);
        }
        Ok(())
    }

    /// Publishes a change of a pod.
    fn announce<'a>(&self, pod: &Pod, situation: &Situation<'_>, mut parts: impl Iterator<Item = Part<'a>>) {
        match situation {
            Situation::Asked(part) => {
                if let Err(note) = own_timeout(pod) {
                    self.events.send(part.evacuation, Notice::warning("InvalidAnnotation", note));
                }
                self.count_replacement("released");
                let note = "the pod was released from its ReplicaSet, which makes a replacement".to_owned();
                self.events.send(part.evacuation, Notice::normal("Released", note));
            }
            Situation::GiveBack(record) => {
                self.count_replacement("given_back");
                let set = &record.replica_set.name;
                let note =
                    format!("the pod stays and was given back to ReplicaSet {set}, which deletes another");
                if let Some(part) = parts.find(|part| part.uid() == record.evacuation.uid) {
                    self.events.send(part.evacuation, Notice::normal("GivenBack", note));
                } else {
                    tracing::info!(evacuation = record.evacuation.name, "{note}");
                }
            }
            _ => {}
        }
    }

    fn count_replacement(&self, outcome: &'static str) {
        self.replacements.get_or_create(&[("outcome", outcome)]).inc();
    }
}

/// Lets a pod go that can have no replacement beside it, for that reason.
fn without_replacement(obstacle: &impl std::fmt::Display) -> Reply {
    let message = format!(
        "no replacement can be ready before the pod goes: {obstacle}; its budgets decide when it goes"
    );
    Reply::Accept { reason: NO_REPLACEMENT_REASON, message }
}

#[async_trait]
impl Feature for Surge {
    fn name(&self) -> &'static str {
        "surge"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods, Kind::Budgets]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let Some(uid) = deleted_evacuation(event) {
            self.replier.forget(uid);
        }
        if let ClusterEvent::Pod(change) = event {
            self.released.observe(change);
            // The pod can be the replacement of one that was released from the same ReplicaSet.
            for owner in states(change).filter_map(controller_of) {
                self.queue.add_all(self.released.from(&owner.uid));
            }
        }
        self.queue.add_all(INTEREST.concerned(&self.view, event));
    }

    fn resync(&self) {
        self.queue.add_all(INTEREST.all(&self.view));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let now = self.clock.now();
        let (pod, evacuations) = self.snapshot(key).await?;
        let parts = || evacuations.iter().filter_map(|e| Part::of(e, REPLACEMENT_RESPONDER));
        let mut plan = SurgePlan::default();
        if let Some(pod) = &pod {
            let situation = situation(pod, evacuations.iter().map(AsRef::as_ref), now);
            plan = self.plan(key, pod, &situation, now).await?;
            if let Some(change) = &plan.change {
                self.patcher.patch(pod, change).await?;
                self.announce(pod, &situation, parts());
                return Ok(Requeue::Now);
            }
            let uid = pod.metadata.uid.as_deref();
            match &situation {
                Situation::Asked(part) | Situation::Replacing(part, _) => {
                    if let Some(reply) = plan.reply {
                        self.reply_counted(*part, reply).await?;
                    }
                }
                // An Evacuation that asks while the pod returns from an earlier one has to wait.
                Situation::Returning(_) => {
                    if let Some(part) = parts().find(|part| part.targets(uid) && part.is_awaited())
                        && let Some(reply) = hold(part, RETURNING.to_owned(), now).reply
                    {
                        self.replier.post(part, reply).await?;
                    }
                }
                Situation::Nothing
                | Situation::Refused(_)
                | Situation::Leaving(_)
                | Situation::GiveBack(_) => {}
            }
        }
        self.rehearse(key, pod.as_ref()).await?;
        // The label is back by now. The rest needs no Evacuation.
        self.replier.acknowledge(&evacuations, REPLACEMENT_RESPONDER).await?;
        Ok(plan.wake_at.map(|time| due(time, self.clock.now())).into())
    }

    fn is_expected(&self, error: &CallError) -> bool {
        is_expected(error)
    }
}
