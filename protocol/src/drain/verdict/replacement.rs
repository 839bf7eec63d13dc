//! Replacements that a budget waits for, and their failures.

mod failure;
mod unplaced;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(super) use self::failure::Failure;
use self::failure::{given_up, terminating};
use super::{DrainedPod, STUCK_AFTER_SECONDS, leaving};
use crate::{
    drain::surroundings::Surroundings,
    pod::LivePod,
    time::{after, sooner, told},
};

/// The unready pods that can make room in a budget.
pub(super) struct Replacements<'a> {
    /// The number of those that become ready, as far as one can see.
    pub(super) hopeful: i32,
    /// The failure to name, if a pod fails.
    pub(super) worst: Option<Failure<'a>>,
    /// The time at which the first of the hopeful pods is given up.
    pub(super) hope_ends: Option<DateTime<Utc>>,
    /// The number of pods that the budget expects, and that nobody creates, as far as one can see.
    pub(super) missing: i32,
}

impl Replacements<'_> {
    /// Returns true when there is no unready pod.
    pub(super) fn is_none(&self) -> bool {
        self.hopeful == 0 && self.worst.is_none()
    }
}

impl<'a> Replacements<'a> {
    fn hope(&mut self, ends: Option<DateTime<Utc>>) {
        self.hopeful = self.hopeful.saturating_add(1);
        self.hope_ends = sooner(self.hope_ends, ends);
    }

    fn fail(&mut self, failure: Failure<'a>) {
        if self.worst.as_ref().is_none_or(|worst| failure.order() < worst.order()) {
            self.worst = Some(failure);
        }
    }
}

/// Sorts the unready pods around a pod, without itself and without those that have ended. The failure to name
/// does not depend on their order. `expected` is the number of pods that the budget expects and does not
/// count as healthy, without the pod itself.
///
/// A pod that has not been ready for [`STUCK_AFTER_SECONDS`] gives no hope, whatever the reason: it may have
/// accepted to go and stopped its work, or its node may be dead. One that terminates counts only where the
/// others are fewer than the budget expects: another one takes its place when it is gone, as in a
/// StatefulSet.
pub(super) fn sort<'a>(pod: &DrainedPod<'a>, expected: i32, now: DateTime<Utc>) -> Replacements<'a> {
    let itself = |other: &Pod| {
        let key = |pod: &Pod| {
            let metadata = &pod.metadata;
            (metadata.namespace.clone(), metadata.name.clone(), metadata.uid.clone())
        };
        key(other) == key(pod.pod)
    };
    let counts = |other: &&Pod| !itself(other) && Surroundings::is_unready(other);
    let Some(others) = &pod.unready else {
        return Replacements { hopeful: 0, worst: None, hope_ends: None, missing: 0 };
    };
    let others = others.iter().copied().filter(counts);
    let (leaving, others): (Vec<_>, Vec<_>) = others.partition(|other| ends(other).is_some());
    let replaced = i32::try_from(others.len()).unwrap_or(i32::MAX);
    let mut replacements =
        Replacements { hopeful: 0, worst: None, hope_ends: None, missing: expected.saturating_sub(replaced) };
    for other in others {
        let hope_ends = unready_since(other).map(|since| after(since, STUCK_AFTER_SECONDS));
        let is_given_up = hope_ends.is_some_and(|end| end <= now);
        let failure = Failure::of(other, pod.attach_failures);
        match failure.or_else(|| is_given_up.then(|| given_up(other, pod))) {
            Some(failure) => replacements.fail(failure),
            None => replacements.hope(hope_ends),
        }
    }
    for other in leaving {
        if replacements.missing <= 0 {
            break;
        }
        replacements.missing = replacements.missing.saturating_sub(1);
        match ends(other) {
            Some(end) if end <= now => replacements.fail(terminating(other, pod)),
            end => replacements.hope(end),
        }
    }
    replacements
}

/// Returns the time from which a pod that terminates gives no hope.
fn ends(pod: &Pod) -> Option<DateTime<Utc>> {
    LivePod::of(pod).terminating_until.map(|end| after(end, leaving::MARGIN_SECONDS))
}

/// Returns the condition of that type.
pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Returns the time since which an unready pod is not ready.
fn unready_since(pod: &Pod) -> Option<DateTime<Utc>> {
    condition(pod, "Ready").map_or_else(|| created(pod), |ready| since(pod, ready))
}

/// Returns the time of the condition, or of the pod's creation.
fn since(pod: &Pod, condition: &PodCondition) -> Option<DateTime<Utc>> {
    told(condition.last_transition_time.as_ref()).or_else(|| created(pod))
}

fn created(pod: &Pod) -> Option<DateTime<Utc>> {
    told(pod.metadata.creation_timestamp.as_ref())
}

#[cfg(test)]
mod tests;
