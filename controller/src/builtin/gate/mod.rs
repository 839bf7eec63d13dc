//! `gate.evacuation.dev/condition`: waits until a condition or an annotation of the pod says that it may go.
//!
//! # Flow
//!
//! The pod is told by the annotation `gate.evacuation.dev/asked`, which it can read from a downward-API volume. Delay, until the
//! app's own tooling opens the gate; then Accept. `gate.evacuation.dev/open: "false"` refuses. The annotation is taken off when
//! nobody asks any more.

mod step;

use std::sync::Arc;

use evacuation_api::{Evacuation, GATE_ASKED_ANNOTATION, GATE_RESPONDER};
use k8s_openapi::api::core::v1::Pod;

use super::{part::Part, reply::Reply, work::Round};
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    error::{CallError, call},
};

impl Controller {
    /// Plays the responder for a pod, one step.
    pub(super) async fn gate(&self, key: &ObjectKey) -> Result<Round, CallError> {
        let (pod, mut evacuations) = {
            let index = lock(&self.index);
            (index.pod(key), index.evacuations_of(key))
        };
        if let Some(pod) = &pod {
            evacuations.extend(self.told_of(key, pod, &evacuations).await?);
        }
        let step = match &pod {
            Some(pod) => step::step(pod, evacuations.iter().map(AsRef::as_ref), self.clock.now()),
            None => step::Step::default(),
        };
        if let (Some(pod), Some(change)) = (&pod, &step.change) {
            self.patch_pod(pod, change).await?;
            return Ok(Round::Again);
        }
        let parts = || evacuations.iter().filter_map(|e| Part::of(e, GATE_RESPONDER));
        let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
        if let Some(reply) = step.reply
            && let Some(part) = parts().find(|part| part.targets(uid) && part.is_active())
        {
            self.reply(part, reply).await?;
        }
        // By now the pod was told: who waits for the acknowledgement finds it as it was.
        for part in parts().filter(Part::must_acknowledge) {
            self.reply(part, Reply::Acknowledge).await?;
        }
        Ok(Round::Rest(step.wake_at))
    }

    /// The Evacuation that a pod was told of, read live if the watch has not shown it: it may lag behind.
    async fn told_of(
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
        let found = call(action, self.evacuations(&key.namespace).get_opt(name)).await?;
        Ok(found.map(Arc::new))
    }
}
