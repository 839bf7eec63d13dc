//! Requests of drains: their entries in Evacuations.

use std::{error::Error, sync::Arc};

use evacuation_api::{Evacuation, NodeEvacuation, OwnerGroups, Requester};
use evacuation_protocol::drain_entry;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tracing::{debug, info};

use super::rejections::{Rejections, is_rejection};
use crate::cluster::{
    CallError, Cluster, ObjectKey, ServerClock, View, Writer, call, evacuation_of, evacuations,
    is_settled_by_the_watch,
};

/// Writer of the entries of drains.
pub(super) struct Requests {
    writer: Writer,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    rejections: Arc<Rejections>,
}

impl Requests {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            writer: cluster.writer(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            rejections: Arc::default(),
        }
    }

    /// Returns the requests that the API server rejected.
    pub(super) fn rejections(&self) -> &Rejections {
        &self.rejections
    }

    /// Creates an Evacuation of a pod. A rejection is recorded, and is no failure.
    pub(super) async fn ask(
        &self,
        drain: &NodeEvacuation,
        pod: &Pod,
        entry: &Requester,
    ) -> Result<(), CallError> {
        let groups = owner_groups(drain);
        let drain = &ObjectKey::of(drain);
        let (key, uid) = (ObjectKey::of(pod), pod.uid().unwrap_or_default());
        if self.rejections.rests(drain, &uid) {
            return Ok(());
        }
        let api = evacuations(&self.writer.client()?, &key.namespace);
        let mut wanted = evacuation_of(pod, entry);
        groups.write(&mut wanted.metadata);
        match call(format!("ask pod {key} to move"), api.create(&wanted)).await {
            Ok(created) => {
                self.rejections.remove(drain, &uid);
                self.view.apply(created);
                Ok(())
            }
            // The watch will show the Evacuation to join, or that the pod is gone.
            Err(error) if is_settled_by_the_watch(&error) => {
                debug!(pod = %key, error = &error as &dyn Error, "not asked");
                Ok(())
            }
            Err(error) if is_rejection(&error) => {
                let message = error.status().map(|status| status.message.clone()).unwrap_or_default();
                debug!(pod = %key, message, "the request was rejected");
                self.rejections.add(drain, &uid, &message, self.clock.now());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the entry to an active Evacuation, or replaces it there.
    ///
    /// A rejection is recorded, and is no failure.
    pub(super) async fn join(
        &self,
        drain: &NodeEvacuation,
        evacuation: &Evacuation,
        entry: &Requester,
    ) -> Result<(), CallError> {
        let groups = owner_groups(drain);
        let drain = &ObjectKey::of(drain);
        let uid = evacuation.spec.target.pod.uid.clone().unwrap_or_default();
        if self.rejections.rests(drain, &uid) {
            return Ok(());
        }
        let join = |whole: &mut Evacuation| {
            whole.spec.requesters.retain(|known| known.key() != entry.key());
            whole.spec.requesters.push(entry.clone());
            groups.write(&mut whole.metadata);
        };
        match self.edit(evacuation, "join", join).await {
            Err(error) if is_rejection(&error) && error.code() != 409 => {
                let message = error.status().map(|status| status.message.clone()).unwrap_or_default();
                debug!(evacuation = %ObjectKey::of(evacuation), message, "the request was rejected");
                self.rejections.add(drain, &uid, &message, self.clock.now());
                Ok(())
            }
            joined => {
                self.rejections.remove(drain, &uid);
                joined.map(|_| ())
            }
        }
    }

    /// Removes the entry of a drain from an active Evacuation.
    ///
    /// # Errors
    ///
    /// A 409 while an eviction is in flight: its outcome decides whether the withdrawal is possible.
    pub(super) async fn withdraw(
        &self,
        drain: &NodeEvacuation,
        evacuation: &Evacuation,
    ) -> Result<(), CallError> {
        let Some(entry) = drain_entry(drain) else { return Ok(()) };
        if self.remove_entry(evacuation, &entry.name).await? {
            info!(evacuation = %ObjectKey::of(evacuation), drain = drain.name_any(), "withdrawn");
        }
        Ok(())
    }

    /// Removes the entries of that name from an active Evacuation. The name is that of one drain. Returns
    /// false when the Evacuation is gone.
    ///
    /// # Errors
    ///
    /// As for [`Requests::withdraw`].
    pub(super) async fn remove_entry(&self, evacuation: &Evacuation, entry: &str) -> Result<bool, CallError> {
        let remove = |whole: &mut Evacuation| whole.spec.requesters.retain(|known| known.name != entry);
        self.edit(evacuation, "withdraw from", remove).await
    }

    /// Changes the Evacuation that was decided on. Returns false when it is gone.
    async fn edit(
        &self,
        evacuation: &Evacuation,
        verb: &str,
        change: impl FnOnce(&mut Evacuation),
    ) -> Result<bool, CallError> {
        let api = evacuations(&self.writer.client()?, &ObjectKey::of(evacuation).namespace);
        api.edit_in(&self.view, evacuation, verb, change).await
    }
}

/// Returns the groups of the user who drains, as the server recorded them.
fn owner_groups(drain: &NodeEvacuation) -> OwnerGroups {
    let requester = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    requester.map(|user| OwnerGroups::new(&user.user, &user.groups)).unwrap_or_default()
}
