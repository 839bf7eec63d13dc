//! Earlier requests for an owner's pods, from the Evacuations.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, Evacuation, FailedReason, from_condition_time};

use super::{
    Limits,
    names::{ATTEMPT, OWNER, SETTLED},
};
use crate::cluster::is_finished;

/// Returns the UID of the owner whose pod was asked. `None` for an Evacuation of another requester.
pub(crate) fn owner_uid(evacuation: &Evacuation) -> Option<&str> {
    evacuation.metadata.labels.as_ref()?.get(OWNER).map(String::as_str)
}

/// Creation time of an Evacuation.
pub(crate) fn created(evacuation: &Evacuation) -> DateTime<Utc> {
    let time = evacuation.metadata.creation_timestamp.as_ref();
    time.map(from_condition_time).unwrap_or_default()
}

/// Evacuations of one owner's pods that this requester created.
#[derive(Clone, Debug)]
pub(crate) struct History<'a> {
    of_owner: Vec<&'a Evacuation>,
}

impl<'a> History<'a> {
    /// Returns those of `evacuations` that are of that owner's pods.
    pub(super) fn of(evacuations: impl IntoIterator<Item = &'a Evacuation>, owner: &str) -> Self {
        let of_owner = evacuations.into_iter().filter(|e| owner_uid(e) == Some(owner));
        Self { of_owner: of_owner.collect() }
    }

    /// Returns one that has not ended.
    pub(super) fn active(&self) -> Option<&'a Evacuation> {
        self.of_owner.iter().copied().find(|e| !is_finished(e))
    }

    /// Returns the last one.
    pub(super) fn last(&self) -> Option<&'a Evacuation> {
        self.of_owner.iter().copied().max_by_key(|e| (created(e), attempt(e)))
    }

    /// Returns the last one, unless the owner's pods were well after it.
    pub(super) fn unsettled(&self) -> Option<&'a Evacuation> {
        self.last().filter(|last| annotation(last, SETTLED).is_none())
    }

    /// Number of the next attempt.
    pub(super) fn next_attempt(&self) -> u32 {
        self.unsettled().map_or(1, |last| attempt(last).saturating_add(1))
    }

    /// End of the backoff of the owner's pods. `None` if no pod was asked since they were well.
    pub(super) fn left_alone_until(&self, limits: &Limits) -> Option<DateTime<Utc>> {
        let last = self.unsettled()?;
        Some(ended(last) + limits.backoff(attempt(last)))
    }

    /// Number of times that the pod of that UID was asked.
    pub(super) fn asked(&self, pod_uid: Option<&str>) -> usize {
        let of_pod = |e: &&&Evacuation| e.spec.target.pod.uid.as_deref() == pod_uid;
        self.of_owner.iter().filter(of_pod).count()
    }
}

/// Number of an attempt. An Evacuation that does not say counts as a first one.
pub(crate) fn attempt(evacuation: &Evacuation) -> u32 {
    annotation(evacuation, ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn annotation<'a>(evacuation: &'a Evacuation, name: &str) -> Option<&'a str> {
    evacuation.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// End of an Evacuation, or its start if the end is not known.
pub(super) fn ended(evacuation: &Evacuation) -> DateTime<Utc> {
    let finished =
        evacuation.status.as_ref().and_then(|status| status.true_condition(ConditionType::Finished));
    finished.map_or_else(|| created(evacuation), |c| from_condition_time(&c.last_transition_time))
}

/// Returns the outcome of an Evacuation of this requester, as a label of metrics.
pub(crate) fn outcome(evacuation: &Evacuation) -> &'static str {
    let Some(status) = &evacuation.status else { return "failed" };
    if status.is_true(ConditionType::Evacuated) {
        return "evacuated";
    }
    match status.reason() {
        Some(FailedReason::Refused | FailedReason::PodGroupRefused) => "refused",
        Some(FailedReason::Canceled) => "canceled",
        Some(FailedReason::DeadlineGaveUp | FailedReason::Rehearsed) | None => "failed",
    }
}
