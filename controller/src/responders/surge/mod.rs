//! `surge.evacuation.dev/replacement`: the replacement of a pod is ready before the pod goes, within its budget, without
//! touching `replicas`.
//!
//! # Flow
//!
//! 1. Asked: a label by which its ReplicaSet selects the pod is taken off, and recorded on the pod. The ReplicaSet lets the pod
//!    go and makes another; Services and budgets go on selecting the old one.
//! 2. Delay, until the ReplicaSet has all its replicas available without the pod; then Accept. The budget now counts one more
//!    than it needs, and the pod is evicted.
//! 3. If the pod stays, the label is given back. The ReplicaSet adopts the pod and deletes another, for the pod has the highest
//!    deletion cost meanwhile.
//!
//! # Caveats
//!
//! A ReplicaSet prefers to delete a pod that is not ready, whatever it costs: a pod that is given back and not ready goes
//! if its replacement is.

mod group;
mod look;
mod record;
mod release;
mod situation;
mod step;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use evacuation_api::REPLACEMENT_RESPONDER;
use k8s_openapi::api::core::v1::Pod;

pub(crate) use record::{is_released, released_from};

use self::{
    record::Record,
    situation::{Situation, situation},
    step::{Step, end_return, give_back, hold, release, replace},
};
use super::{part::Part, patch::PodChange, reply::Reply, work::Round};
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    error::CallError,
    events::Notice,
};

impl Controller {
    /// Plays the responder for a pod, one step.
    pub(super) async fn surge(&self, key: &ObjectKey) -> Result<Round, CallError> {
        let now = Utc::now();
        let (pod, mut evacuations) = {
            let index = lock(&self.index);
            (index.pod(key), index.evacuations_of(key))
        };
        let record = pod.as_deref().and_then(Record::of);
        if let Some(record) = &record
            && !evacuations
                .iter()
                .any(|e| e.metadata.uid.as_deref() == Some(record.evacuation.uid.as_str()))
        {
            evacuations.extend(self.recorded_evacuation(key, record).await?);
        }
        let parts = || {
            let parts = evacuations
                .iter()
                .filter_map(|e| Part::of(e, REPLACEMENT_RESPONDER));
            parts.collect::<Vec<Part<'_>>>()
        };
        let situation = match &pod {
            Some(pod) => situation(pod, evacuations.iter().map(AsRef::as_ref), now),
            None => Situation::Nothing,
        };
        // The end of an Evacuation is acknowledged once its pod was given back.
        let unsettled = match &situation {
            Situation::GiveBack(record) => Some(record.evacuation.uid.clone()),
            _ => None,
        };
        for part in parts().into_iter().filter(Part::must_acknowledge) {
            if unsettled.as_deref() != Some(part.uid()) {
                self.reply(part, Reply::Acknowledge).await?;
            }
        }
        let Some(pod) = pod else {
            return Ok(Round::Rest(None));
        };
        let step = self.surge_step(key, &pod, &situation, now).await?;
        // Whoever asks while the pod is given back from an earlier Evacuation waits for that.
        let waiting = match &situation {
            Situation::GiveBack(_) | Situation::Returning(_) => parts()
                .into_iter()
                .find(|part| part.targets(pod.metadata.uid.as_deref()) && part.is_awaited()),
            _ => None,
        };
        if let Some(part) = waiting {
            let message =
                "the pod is being given back to its ReplicaSet after an earlier evacuation".to_owned();
            if let Some(reply) = hold(part, message, now).reply {
                self.reply(part, reply).await?;
            }
        }
        self.take_step(&pod, &situation, step).await
    }

    async fn surge_step(
        &self,
        key: &ObjectKey,
        pod: &Arc<Pod>,
        situation: &Situation<'_>,
        now: DateTime<Utc>,
    ) -> Result<Step, CallError> {
        Ok(match situation {
            Situation::Nothing => Step::default(),
            Situation::Refused(until) => Step {
                wake_at: Some(*until),
                ..Step::default()
            },
            Situation::Asked(part) => match self.find_label(key, pod).await? {
                Ok((label, owner)) => Step {
                    change: Some(release(*part, label, &owner, now)),
                    ..Step::default()
                },
                Err(obstacle) => Step {
                    reply: Some(Reply::Accept {
                        reason: "NoReplacement",
                        message: format!(
                            "no replacement can be ready before the pod goes: {obstacle}; its budgets decide when it goes"
                        ),
                    }),
                    ..Step::default()
                },
            },
            Situation::Replacing(part, record) => {
                let group = self.group(key, record).await?;
                replace(*part, pod, record, group.as_ref(), now)
            }
            Situation::GiveBack(record) => {
                let group = self.group(key, record).await?;
                give_back(pod, record, group.as_ref())
            }
            Situation::Returning(record) => {
                let group = self.group(key, record).await?;
                let step = end_return(pod, record, group.as_ref(), now);
                match (&step.change, group) {
                    // The watch of pods may lag behind: the deletion cost must hold until the choice was made.
                    (Some(_), Some(_)) => {
                        let group = self.fresh_group(key, record).await?;
                        end_return(pod, record, group.as_ref(), now)
                    }
                    _ => step,
                }
            }
        })
    }

    async fn take_step(&self, pod: &Pod, situation: &Situation<'_>, step: Step) -> Result<Round, CallError> {
        if let (Some(reply), Situation::Asked(part) | Situation::Replacing(part, _)) = (step.reply, situation)
        {
            let outcome = match reply {
                Reply::Accept { reason, .. } if reason == "NoReplacement" => Some("impossible"),
                Reply::Accept { .. } => Some("ready"),
                Reply::Refuse { .. } => Some("failed"),
                Reply::Delay { .. } | Reply::Acknowledge => None,
            };
            self.reply(*part, reply).await?;
            if let Some(outcome) = outcome {
                self.count_replacement(outcome);
            }
        }
        let Some(change) = step.change else {
            return Ok(Round::Rest(step.wake_at));
        };
        self.patch_pod(pod, &change).await?;
        self.tell(situation, &change);
        Ok(Round::Again)
    }

    /// Tells of a change of a pod.
    fn tell(&self, situation: &Situation<'_>, change: &PodChange) {
        match situation {
            Situation::Asked(part) => {
                self.count_replacement("released");
                let label = change.labels.keys().next().map_or("", String::as_str);
                let note =
                    format!("the label {label} was taken off, so that the ReplicaSet makes a replacement");
                self.notify(part.evacuation, Notice::normal("Released", note));
            }
            Situation::GiveBack(record) | Situation::Returning(record) => {
                let (name, set) = (&record.evacuation.name, &record.replica_set.name);
                if situation == &Situation::GiveBack(record.clone()) {
                    self.count_replacement("given_back");
                    tracing::info!(evacuation = name, replica_set = set, "a pod is given back");
                }
            }
            _ => {}
        }
    }

    fn count_replacement(&self, outcome: &'static str) {
        self.metrics
            .replacements
            .get_or_create(&[("outcome", outcome)])
            .inc();
    }
}
