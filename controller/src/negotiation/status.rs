//! Writes of the status. Each is guarded by the state that was decided on, and its result is in the view at
//! once.

use std::{sync::Arc, time::Instant};

use evacuation_api::{Evacuation, EvacuationStatus};
use kube::Client;
use tracing::debug;

use super::{
    evictor::{AttemptId, Attempts},
    in_flight,
};
use crate::cluster::{CallError, Cluster, Leadership, ObjectKey, View, call, evacuations};

/// Writer of the status of Evacuations.
pub(super) struct StatusWriter {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    attempts: Arc<Attempts>,
}

impl StatusWriter {
    /// Returns a writer that tells `attempts` which attempts it recorded.
    pub(super) fn new(cluster: &Cluster, attempts: Arc<Attempts>) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            attempts,
        }
    }

    /// Writes a status in place of the one that was decided on. Afterwards the view holds what the server
    /// returned, or the server's state after a conflict. Returns false when the server kept the old state: an
    /// older one does not know each field.
    pub(super) async fn write(
        &self,
        key: &ObjectKey,
        evacuation: &Arc<Evacuation>,
        status: EvacuationStatus,
    ) -> Result<bool, CallError> {
        self.leadership.check()?;
        let proposed = Evacuation { status: Some(status), ..evacuation.as_ref().clone() };
        let api = evacuations(&self.client, &key.namespace);
        let began = tokio::time::Instant::now();
        let timer = Instant::now();
        let written =
            call(format!("write the status of evacuation {key}"), api.replace_status(&proposed)).await;
        match written {
            Ok(written) => {
                debug!(evacuation = %key, elapsed = ?timer.elapsed(), "wrote the status");
                let (was, is) = (in_flight(evacuation.status.as_ref()), in_flight(written.status.as_ref()));
                if is && !was {
                    self.attempts.recorded(key, AttemptId::last(&written), began);
                }
                if was && !is {
                    self.attempts.forget(key);
                }
                let has_changed = written.metadata.resource_version != evacuation.metadata.resource_version;
                self.view.apply(written);
                Ok(has_changed)
            }
            Err(error) if error.has_cause("NotYet") => Err(error),
            Err(error) if matches!(error.code(), 404 | 409) => {
                self.read_again(key, evacuation, error).await.map(|()| true)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads an Evacuation that changed or went. Fails with `error` if it did neither.
    async fn read_again(
        &self,
        key: &ObjectKey,
        known: &Evacuation,
        error: CallError,
    ) -> Result<(), CallError> {
        let api = evacuations(&self.client, &key.namespace);
        match call(format!("read evacuation {key}"), api.get_opt(&key.name)).await? {
            None => {
                self.view.remove::<Evacuation>(key, known.metadata.uid.as_deref());
                Ok(())
            }
            Some(found) if found.metadata.resource_version == known.metadata.resource_version => Err(error),
            Some(found) => {
                self.view.apply(found);
                let newest = self.view.index().evacuation(key);
                let moved = newest
                    .is_some_and(|now| now.metadata.resource_version != known.metadata.resource_version);
                if moved { Ok(()) } else { Err(error) }
            }
        }
    }
}
