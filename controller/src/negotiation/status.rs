//! Writing the status: guarded by what was decided on, and read back at once.

use std::{sync::Arc, time::Instant};

use evacuation_api::{Evacuation, EvacuationStatus};
use kube::api::PostParams;
use tracing::debug;

use super::in_flight;
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    error::{CallError, call},
    evictor::AttemptId,
};

impl Controller {
    /// Writes a status in place of the one that was decided on. What the server returned is in the index afterwards; after a
    /// conflict it is what the server has.
    pub(super) async fn write_status(
        &self,
        key: &ObjectKey,
        evacuation: &Arc<Evacuation>,
        status: EvacuationStatus,
    ) -> Result<(), CallError> {
        self.leadership.check()?;
        let proposed = Evacuation { status: Some(status), ..evacuation.as_ref().clone() };
        let api = self.evacuations(&key.namespace);
        let began = tokio::time::Instant::now();
        let timer = Instant::now();
        let parameters = PostParams::default();
        let written = call(
            format!("write the status of evacuation {key}"),
            api.replace_status(&key.name, &parameters, &proposed),
        )
        .await;
        match written {
            Ok(written) => {
                debug!(evacuation = %key, elapsed = ?timer.elapsed(), "the status was written");
                let (was, is) = (in_flight(evacuation.status.as_ref()), in_flight(written.status.as_ref()));
                if is && !was {
                    self.attempts.recorded(key, AttemptId::last(&written), began);
                }
                if was && !is {
                    self.attempts.forget(key);
                }
                self.apply(written);
                Ok(())
            }
            Err(error) if error.has_cause("NotYet") => Err(error),
            Err(error) if matches!(error.code(), 404 | 409) => self.read_again(key, evacuation, error).await,
            Err(error) => Err(error),
        }
    }

    /// Reads an Evacuation that is not what it was thought to be. Fails with `error` when it is.
    async fn read_again(
        &self,
        key: &ObjectKey,
        known: &Evacuation,
        error: CallError,
    ) -> Result<(), CallError> {
        let api = self.evacuations(&key.namespace);
        match call(format!("read evacuation {key}"), api.get_opt(&key.name)).await? {
            None => {
                self.remove::<Evacuation>(key);
                Ok(())
            }
            Some(found) if found.metadata.resource_version == known.metadata.resource_version => Err(error),
            Some(found) => {
                self.apply(found);
                let newest = lock(&self.index).evacuation(key);
                let moved = newest
                    .is_some_and(|now| now.metadata.resource_version != known.metadata.resource_version);
                if moved { Ok(()) } else { Err(error) }
            }
        }
    }
}
