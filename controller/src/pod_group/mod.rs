//! Asks the other members of a PodGroup whose pods are disrupted together.
//!
//! # Flow
//!
//! A change of a pod in a group, or of its Evacuation, queues the group. A worker passes the group's pods
//! and Evacuations to [`plan_group`], and writes the entries that follow. The entries belong to the user
//! who asked for the first member. They are taken back when the group's pods move together no longer. Where
//! that user has no right to disrupt a member, the next of those who ask counts for it.
//!
//! # Guarantees
//!
//! Nothing is read of groups without an active Evacuation. The negotiation, not this feature, keeps a member
//! from being evicted before all are done.

use std::{
    cell::Cell,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::{Evacuation, LIMIT_CAUSES, OwnerGroups, POD_GROUP_REQUESTER, Requester};
use evacuation_protocol::{GroupAct, GroupPod, part_group, plan_group};
use k8s_openapi::api::core::v1::Pod;
use moka::{policy::EvictionPolicy, sync::Cache};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::cluster::{
    CallError, Cluster, ClusterEvent, Feature, GroupModes, Kind, ObjectKey, Requeue, View, WorkQueue, Writer,
    all_done, call, evacuation_of, evacuations, group_key, is_settled_by_the_watch, pod_key,
};

/// Number of acts for one group that are under way at a time.
const AT_ONCE: usize = 8;
/// Time after which a group that could not be read is read again: that for which the failure is known.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// Time for which it is known that a user may not disrupt a pod.
const REJECTED: Duration = Duration::from_mins(1);
/// Pause before the next of those who ask counts. It bounds the requests of a group that many users ask for.
const NEXT: Duration = Duration::from_secs(1);
/// Maximum number of such rejections. Another one pushes out an old one, and is tried again.
const REJECTIONS: u64 = 10_000;

/// The feature that asks for whole PodGroups. Its keys are PodGroups.
pub(crate) struct PodGroups {
    writer: Writer,
    view: Arc<View>,
    modes: Arc<GroupModes>,
    queue: WorkQueue<ObjectKey>,
    /// Users who may not disrupt a pod: the owner of a request, and the UID of the pod.
    rejections: Cache<(String, String), ()>,
}

impl PodGroups {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            writer: cluster.writer(),
            view: Arc::clone(&cluster.view),
            modes: Arc::clone(&cluster.group_modes),
            queue: WorkQueue::default(),
            rejections: Cache::builder()
                .max_capacity(REJECTIONS)
                .time_to_live(REJECTED)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        })
    }

    /// Carries out an act. Returns true when its owner may not ask the pod.
    async fn act(&self, act: GroupAct<'_>) -> Result<bool, CallError> {
        let asked = match &act {
            GroupAct::Ask(pod, entry, _) => Some((entry.owner.clone(), uid(pod).to_owned())),
            GroupAct::Join(evacuation, entry, _) => {
                let pod = evacuation.spec.target.pod.uid.clone();
                Some((entry.owner.clone(), pod.unwrap_or_default()))
            }
            GroupAct::Withdraw(_) => None,
        };
        match self.carry_out(act).await {
            Err(error) if error.code() == 403 && !is_for_room(&error) => {
                info!(error = &error as &dyn Error, "not asked: it holds the other pods of its PodGroup");
                Ok(asked.map(|asked| self.rejections.insert(asked, ())).is_some())
            }
            outcome => outcome.map(|()| false),
        }
    }

    async fn carry_out(&self, act: GroupAct<'_>) -> Result<(), CallError> {
        match act {
            GroupAct::Ask(pod, entry, groups) => self.ask(pod, &entry, &groups).await,
            GroupAct::Join(evacuation, entry, groups) => {
                let join = |whole: &mut Evacuation| {
                    drop_entry(whole);
                    whole.spec.requesters.push(*entry);
                    groups.write(&mut whole.metadata);
                };
                self.edit(evacuation, "join", join).await
            }
            GroupAct::Withdraw(evacuation) => {
                self.edit(evacuation, "withdraw from", drop_entry).await?;
                info!(evacuation = %ObjectKey::of(evacuation), "withdrawn: nobody asks its PodGroup");
                Ok(())
            }
        }
    }

    async fn ask(&self, pod: &Pod, entry: &Requester, groups: &OwnerGroups) -> Result<(), CallError> {
        let key = ObjectKey::of(pod);
        let mut wanted = evacuation_of(pod, entry);
        groups.write(&mut wanted.metadata);
        let api = evacuations(&self.writer.client()?, &key.namespace);
        match call(format!("ask pod {key} to move"), api.create(&wanted)).await {
            Ok(created) => {
                info!(pod = %key, owner = entry.owner, "asked, as another pod of its PodGroup is");
                self.view.apply(created);
                Ok(())
            }
            Err(error) if is_settled_by_the_watch(&error) => {
                debug!(pod = %key, error = &error as &dyn Error, "not asked");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the Evacuation that was decided on. One that is gone needs no change.
    async fn edit(
        &self,
        known: &Evacuation,
        verb: &str,
        change: impl FnOnce(&mut Evacuation),
    ) -> Result<(), CallError> {
        let api = evacuations(&self.writer.client()?, &ObjectKey::of(known).namespace);
        api.edit_in(&self.view, known, verb, change).await.map(drop)
    }
}

/// Returns true when a limit leaves no room for an entry: the user may ask, but not now.
fn is_for_room(error: &CallError) -> bool {
    LIMIT_CAUSES.iter().any(|cause| error.has_cause(cause))
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Removes the entries of a PodGroup from an Evacuation.
fn drop_entry(evacuation: &mut Evacuation) {
    evacuation.spec.requesters.retain(|known| known.name != POD_GROUP_REQUESTER);
}

#[async_trait]
impl Feature for PodGroups {
    fn name(&self) -> &'static str {
        "pod groups"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        let group = match event {
            ClusterEvent::Evacuation(change) => {
                let evacuation = change.new.as_deref().or(change.old.as_deref());
                let pod = evacuation.and_then(|evacuation| self.view.index().pod(&pod_key(evacuation)));
                pod.and_then(|pod| group_key(&pod))
            }
            ClusterEvent::Pod(change) => change.new.as_deref().or(change.old.as_deref()).and_then(group_key),
            _ => None,
        };
        if let Some(group) = group {
            self.queue.add(group);
        }
    }

    fn resync(&self) {
        let groups: Vec<ObjectKey> = self.view.index().groups().cloned().collect();
        self.queue.add_all(groups);
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let asked = self.view.index().asked_in(key);
        if asked.is_empty() {
            return Ok(Requeue::OnEvent);
        }
        let Some(together) = self.modes.known(key).await else {
            return Ok(Requeue::At(Instant::now() + READ_AGAIN));
        };
        let members = if together { self.view.index().group(key) } else { Vec::new() };
        let pods: Vec<_> = members
            .iter()
            .map(|(pod, all)| GroupPod { pod, evacuations: all.iter().map(AsRef::as_ref).collect() })
            .collect();
        // A group that is too large has no members either.
        let (plan, is_known) = {
            let is_known = Cell::new(false);
            let is_rejected = |pod: &Pod, owner: &str| {
                let rejected = self.rejections.contains_key(&(owner.to_owned(), uid(pod).to_owned()));
                is_known.set(is_known.get() || rejected);
                rejected
            };
            let plan = match &pods[..] {
                [] => part_group(asked.iter().map(AsRef::as_ref)),
                pods => plan_group(pods, is_rejected),
            };
            (plan, is_known.get())
        };
        let rejected = AtomicBool::new(false);
        let acts = plan.into_iter().map(async |act| {
            rejected.fetch_or(self.act(act).await?, Ordering::Relaxed);
            Ok(())
        });
        all_done(acts.collect(), AT_ONCE).await?;
        // The next of those who ask counts, and the rejected ones when their time is over.
        Ok(match (rejected.into_inner(), is_known) {
            (true, _) => Requeue::At(Instant::now() + NEXT),
            (false, true) => Requeue::At(Instant::now() + REJECTED),
            (false, false) => Requeue::OnEvent,
        })
    }
}

#[cfg(test)]
mod tests;
