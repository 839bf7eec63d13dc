//! Acts of a decision.

use std::{sync::Arc, time::Duration};

use evacuation_api::{CANCELLATION_FINALIZER, Evacuation};
use evacuation_protocol::{Act, EvictionOutcome, PodView, World, record_eviction};
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::{Negotiation, evictor::Manner};
use crate::cluster::{CallError, ObjectKey, Requeue, call, evacuations};

/// Pause after a write that the server took and that changed nothing.
const UNCHANGED: Duration = Duration::from_secs(5);

impl Negotiation {
    /// Does one act that was decided.
    pub(super) async fn act(
        &self,
        key: &ObjectKey,
        evacuation: &Arc<Evacuation>,
        world: &World,
        act: Act,
    ) -> Result<Requeue, CallError> {
        self.leadership.check()?;
        match act {
            Act::WriteStatus(status) => {
                let has_changed = self.writer.write(key, evacuation, *status).await?;
                // The same decision would write the same again.
                Ok(if has_changed { Requeue::Now } else { Requeue::At(Instant::now() + UNCHANGED) })
            }
            Act::Evict { grace_period_seconds } => {
                self.attempt_starter.start(key, evacuation, world, Manner::Evict, grace_period_seconds);
                Ok(Requeue::OnEvent)
            }
            Act::Delete { grace_period_seconds } => {
                self.attempt_starter.start(key, evacuation, world, Manner::Delete, grace_period_seconds);
                Ok(Requeue::OnEvent)
            }
            Act::ResolveInFlight => self.resolve(key, evacuation).await,
            Act::Push(push) => Ok(self.asker.start(key, evacuation, push).into()),
            Act::ReleaseFinalizer => self.release_finalizer(key, evacuation).await,
            Act::Remove => self.remove_finished(key, evacuation).await,
        }
    }

    /// Resolves an attempt of unknown outcome: reads the pod, and records the outcome.
    async fn resolve(&self, key: &ObjectKey, evacuation: &Arc<Evacuation>) -> Result<Requeue, CallError> {
        let Some(status) = &evacuation.status else {
            return Ok(Requeue::OnEvent);
        };
        // The clock that decided may be ahead of the server's, which stamped the attempt.
        if let Some(over) = self.sightings.over(key, evacuation)
            && Instant::now() < over
        {
            return Ok(Requeue::At(over));
        }
        let pod = self.world_reader.target(key, evacuation).await?;
        let uid = evacuation.spec.target.pod.uid.as_deref().unwrap_or_default();
        let outcome = EvictionOutcome::from_pod(&PodView::of(pod.as_deref(), uid));
        let status = record_eviction(status, &outcome, rand::random(), self.clock.now());
        self.writer.write(key, evacuation, status).await?;
        Ok(Requeue::Now)
    }

    async fn release_finalizer(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
    ) -> Result<Requeue, CallError> {
        let release = |whole: &mut Evacuation| {
            whole.metadata.finalizers.get_or_insert_default().retain(|name| name != CANCELLATION_FINALIZER);
        };
        let api = evacuations(&self.client, &key.namespace);
        let action = format!("release evacuation {key}");
        match call(action, api.edit(evacuation, release)).await {
            Ok(released) if released.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) => {
                // Without its last finalizer the object is gone.
                self.view.remove::<Evacuation>(key, evacuation.metadata.uid.as_deref());
                Ok(Requeue::OnEvent)
            }
            Ok(released) => {
                self.view.apply(released);
                Ok(Requeue::Now)
            }
            Err(error) if error.code() == 404 => {
                self.view.remove::<Evacuation>(key, evacuation.metadata.uid.as_deref());
                Ok(Requeue::OnEvent)
            }
            Err(error) => Err(error),
        }
    }

    async fn remove_finished(&self, key: &ObjectKey, evacuation: &Evacuation) -> Result<Requeue, CallError> {
        let preconditions = Preconditions {
            uid: evacuation.metadata.uid.clone(),
            resource_version: evacuation.metadata.resource_version.clone(),
        };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let api = evacuations(&self.client, &key.namespace);
        match call(format!("remove evacuation {key}"), api.delete(&key.name, &parameters)).await {
            Ok(()) => Ok(Requeue::OnEvent),
            Err(error) if error.code() == 404 => {
                self.view.remove::<Evacuation>(key, evacuation.metadata.uid.as_deref());
                Ok(Requeue::OnEvent)
            }
            Err(error) => Err(error),
        }
    }
}
