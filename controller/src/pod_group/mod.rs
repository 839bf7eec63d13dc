//! Asks the other members of a PodGroup whose pods are disrupted together.
//!
//! # Flow
//!
//! A change of a pod in a group, or of its Evacuation, queues the group. A worker passes the group's pods
//! and Evacuations to [`plan_group`], and writes the entries that follow. The entries belong to the user
//! who asked for the first member. They are taken back when the group's pods move together no longer.
//!
//! # Guarantees
//!
//! Nothing is read of groups without an active Evacuation. The negotiation, not this feature, keeps a member
//! from being evicted before all are done.

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use evacuation_api::{Evacuation, OwnerGroups, POD_GROUP_REQUESTER, Requester};
use evacuation_protocol::{GroupAct, GroupPod, part_group, plan_group};
use k8s_openapi::api::core::v1::Pod;
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

/// The feature that asks for whole PodGroups. Its keys are PodGroups.
pub(crate) struct PodGroups {
    writer: Writer,
    view: Arc<View>,
    modes: Arc<GroupModes>,
    queue: WorkQueue<ObjectKey>,
}

impl PodGroups {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            writer: cluster.writer(),
            view: Arc::clone(&cluster.view),
            modes: Arc::clone(&cluster.group_modes),
            queue: WorkQueue::default(),
        })
    }

    async fn act(&self, act: GroupAct<'_>) -> Result<(), CallError> {
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
            Err(error) => rejected(error),
        }
    }

    /// Changes the Evacuation that was decided on. One that is gone needs no change.
    async fn edit(
        &self,
        known: &Evacuation,
        verb: &str,
        change: impl FnOnce(&mut Evacuation),
    ) -> Result<(), CallError> {
        let key = ObjectKey::of(known);
        let api = evacuations(&self.writer.client()?, &key.namespace);
        match call(format!("{verb} evacuation {key}"), api.edit(known, change)).await {
            Ok(written) => {
                self.view.apply(written);
                Ok(())
            }
            Err(error) if error.code() == 404 => Ok(()),
            Err(error) => rejected(error),
        }
    }
}

/// Accepts that the owner of a request has no right to disrupt a member, which stays unasked. A change, or
/// the next resync, tries again.
fn rejected(error: CallError) -> Result<(), CallError> {
    if error.code() != 403 {
        return Err(error);
    }
    info!(error = &error as &dyn Error, "not asked: it holds the other pods of its PodGroup");
    Ok(())
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
        let plan = match &pods[..] {
            [] => part_group(asked.iter().map(AsRef::as_ref)),
            pods => plan_group(pods),
        };
        all_done(plan.into_iter().map(|act| self.act(act)).collect(), AT_ONCE).await?;
        Ok(Requeue::OnEvent)
    }
}
