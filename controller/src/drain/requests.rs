//! Requests of drains: their entries in Evacuations.

use std::{error::Error, sync::Arc};

use evacuation_api::{Evacuation, NodeEvacuation, Requester};
use evacuation_protocol::drain_entry;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt, api::PostParams};
use tracing::{debug, info};

use super::rejections::{Rejections, is_rejection};
use crate::cluster::{
    CallError, Cluster, ObjectKey, ServerClock, View, call, evacuation_of, evacuations,
    is_settled_by_the_watch,
};

/// Writer of the entries of drains.
pub(super) struct Requests {
    client: Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    rejections: Arc<Rejections>,
}

impl Requests {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
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
    pub(super) async fn ask(&self, drain: &ObjectKey, pod: &Pod, entry: &Requester) -> Result<(), CallError> {
        let (key, uid) = (ObjectKey::of(pod), pod.uid().unwrap_or_default());
        if self.rejections.rests(drain, &uid) {
            return Ok(());
        }
        let api = evacuations(&self.client, &key.namespace);
        let parameters = PostParams::default();
        let wanted = evacuation_of(pod, entry);
        match call(format!("ask pod {key} to move"), api.create(&parameters, &wanted)).await {
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
        drain: &ObjectKey,
        evacuation: &Evacuation,
        entry: &Requester,
    ) -> Result<(), CallError> {
        let uid = evacuation.spec.target.pod.uid.clone().unwrap_or_default();
        if self.rejections.rests(drain, &uid) {
            return Ok(());
        }
        let mut next = evacuation.clone();
        next.spec.requesters.retain(|known| known.key() != entry.key());
        next.spec.requesters.push(entry.clone());
        match self.replace(next, "join").await {
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
        let mut next = evacuation.clone();
        next.spec.requesters.retain(|known| known.name != entry);
        self.replace(next, "withdraw from").await
    }

    /// Replaces the Evacuation that was decided on. Returns false when it is gone.
    async fn replace(&self, next: Evacuation, verb: &str) -> Result<bool, CallError> {
        let key = ObjectKey::of(&next);
        let api = evacuations(&self.client, &key.namespace);
        let parameters = PostParams::default();
        match call(format!("{verb} evacuation {key}"), api.replace(&key.name, &parameters, &next)).await {
            Ok(written) => {
                self.view.apply(written);
                Ok(true)
            }
            Err(error) if error.code() == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }
}
