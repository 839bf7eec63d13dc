//! The verdict of a drain: the state of each of its pods, what holds it, and their summary.
//!
//! # Guarantees
//!
//! A pod is stuck only when nothing changes by itself: somebody must change an object first. Everything else
//! that holds a pod is slow. Failures that the cluster retries by itself, such as the pull of an image, count
//! as stuck when they have lasted for [`STUCK_AFTER_SECONDS`].
//!
//! Messages hold absolute times only, so that the same objects give the same message at any time between two
//! of the times that [`PodJudgement::changes_at`] names. Texts of others are bounded and have no control
//! characters.

mod asked;
mod budget;
mod command;
mod eviction;
mod hold;
mod leaving;
mod refused;
mod replacement;
mod returned;
mod summary;
mod text;
mod volume;

use chrono::{DateTime, Utc};
use evacuation_api::{CordonPolicy, DrainBlocker, Evacuation, LeftAlonePod};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};

use self::hold::Hold;
pub(super) use self::{
    leaving::REMOVAL_SECONDS,
    refused::record,
    returned::{ROUNDS, Returned},
    summary::{rank, stayed},
    text::owner,
};
pub use self::{
    summary::{Summary, summarize},
    volume::{AttachFailure, volume_in},
};
use super::DrainRefusal;
use crate::time::{after, sooner, stamp};

/// Time after which a failure that the cluster retries by itself counts as stuck, in seconds.
pub const STUCK_AFTER_SECONDS: i64 = 60;

/// A pod that a drain moves, with its surroundings in the cluster.
///
/// The judgement reads these fields of a pod: metadata, phase, conditions, and of its containers the reason
/// and message of a waiting state.
#[derive(Clone, Debug)]
pub struct DrainedPod<'a> {
    /// Name of the drain that moves it; `None` where none does, or none is known.
    pub drain: Option<&'a str>,
    /// True for a pod of a drain without a pod selector: one that leaves the pod out replaces no other.
    pub selects_all: bool,
    /// The name of its node.
    pub node: &'a str,
    /// The drain's policy for the cordon of the node.
    pub cordon: CordonPolicy,
    /// The pod.
    pub pod: &'a Pod,
    /// The progress of the drain with it.
    pub standing: Standing<'a>,
    /// Every budget that selects it.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// Pods that the same budgets select, or that have the same controller, and that are not ready or
    /// terminate: it waits until they are ready, or until others take their place. The pod itself and pods
    /// that have ended do not count.
    /// `None` where they were not read, as for a pod of several budgets.
    pub unready: Option<Vec<&'a Pod>>,
    /// Name of another pod of its budgets that was asked and may have stopped its work.
    pub asked_beside: Option<&'a str>,
    /// Volumes that cannot be attached, of pods in `unready` and others.
    pub attach_failures: &'a [AttachFailure],
    /// The time since which the kubelet of its node does not report.
    pub node_silent_since: Option<DateTime<Utc>>,
    /// The time at which its node was found deleted.
    pub node_deleted: Option<DateTime<Utc>>,
}

/// The progress of a drain with one pod.
#[derive(Clone, Debug)]
pub enum Standing<'a> {
    /// It was not asked: an earlier phase, a limit or a pause holds it back.
    Waiting,
    /// The pod rules of the drain refuse it, for these reasons.
    Refused(Vec<DrainRefusal>),
    /// The API server rejects the request for the pod.
    Rejected {
        /// The reply of the API server.
        message: &'a str,
        /// The time of the first rejection.
        since: DateTime<Utc>,
    },
    /// An active Evacuation holds the entry of this drain.
    Asked(&'a Evacuation),
    /// The Evacuation ended and the pod was left alone.
    LeftAlone(&'a Evacuation),
    /// As [`Standing::LeftAlone`], and the Evacuation is gone: the drain's status remembers it.
    LeftAloneBefore(LeftAlonePod),
    /// It terminates, or has ended and is deleted. No active Evacuation holds the entry of this drain.
    Leaving,
    /// It was neither asked nor deleted, because earlier pods of its owner came back to the node.
    Returned(Returned),
    /// It was not asked, because the kubelet of its node ends it.
    ShutDown {
        /// The time since which the node shuts down.
        since: DateTime<Utc>,
        /// The time until which that is believed. Then the pod is asked.
        until: DateTime<Utc>,
    },
}

/// The number of [`DrainPodCounts`](evacuation_api::DrainPodCounts) in which a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodCount {
    /// Not asked.
    Waiting,
    /// Its responder was asked.
    Asked,
    /// Its responder asked for a delay.
    Delayed,
    /// Its responder refused.
    Refused,
    /// It is being evicted, or terminates.
    Evicting,
    /// Its eviction, or the request for it, is held back.
    Blocked,
}

/// The judgement of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodJudgement {
    /// The number in which the pod counts.
    pub count: PodCount,
    /// The cause that holds it. `None` while it moves or waits for its turn.
    pub blocker: Option<DrainBlocker>,
    /// The time at which it is expected to be gone, as far as the objects tell: the end of the answers, of a
    /// deadline or of its grace period. `None` when nothing says.
    pub expected: Option<DateTime<Utc>>,
    /// The time at which the judgement changes even if no object changes.
    pub changes_at: Option<DateTime<Utc>>,
    /// True while only the status remembers since when the cause holds the pod, and it is stuck once that has
    /// lasted.
    pub(super) lasts: bool,
}

/// Judges one pod.
pub fn judge(pod: &DrainedPod<'_>, now: DateTime<Utc>) -> PodJudgement {
    if let Some(deleted) = pod.node_deleted {
        return leaving::without_its_node(pod, deleted, now);
    }
    if let Some(end) = pod.grace_end() {
        return leaving::judge(pod, end, now);
    }
    match &pod.standing {
        Standing::Waiting => PodJudgement::of(PodCount::Waiting),
        Standing::Refused(reasons) => refused::by_rules(pod, reasons, now),
        Standing::Rejected { message, since } => refused::by_server(pod, message, *since, now),
        Standing::Asked(evacuation) => asked::judge(pod, evacuation, now),
        Standing::LeftAlone(evacuation) => refused::left_alone(pod, evacuation, now),
        Standing::LeftAloneBefore(record) => refused::left_alone_before(pod, record),
        Standing::Leaving => PodJudgement::of(PodCount::Evicting),
        Standing::Returned(returned) => returned::judge(pod, returned),
        Standing::ShutDown { since, until } => leaving::by_the_kubelet(pod, *since, *until),
    }
}

impl DrainedPod<'_> {
    /// Returns the end of its grace period while it terminates.
    fn grace_end(&self) -> Option<DateTime<Utc>> {
        self.pod.metadata.deletion_timestamp.as_ref().map(evacuation_api::from_condition_time)
    }

    /// Returns true for a pod that nothing restarts when its work is done, such as one of a Job, on a node
    /// that works.
    fn ends_by_itself(&self) -> bool {
        let policy = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        matches!(policy, Some("Never" | "OnFailure")) && self.node_silent_since.is_none()
    }

    /// Returns `Pod/NAME`.
    fn object(&self) -> String {
        format!("Pod/{}", text::name(&self.pod.metadata))
    }
}

impl PodJudgement {
    pub(super) fn of(count: PodCount) -> Self {
        Self { count, blocker: None, expected: None, changes_at: None, lasts: false }
    }

    fn expected(self, expected: Option<DateTime<Utc>>) -> Self {
        Self { expected, ..self }
    }

    fn changing_at(self, time: DateTime<Utc>) -> Self {
        Self { changes_at: sooner(self.changes_at, Some(time)), ..self }
    }

    /// Returns the judgement of a pod that something holds.
    fn held(count: PodCount, pod: &DrainedPod<'_>, hold: Hold) -> Self {
        let metadata = &pod.pod.metadata;
        let message = hold.message();
        let blocker = DrainBlocker {
            node: pod.node.to_owned(),
            pod: Some(format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                text::name(metadata)
            )),
            owner: text::owner(pod.pod),
            reason: hold.reason.as_str().to_owned(),
            object: hold.object,
            stuck: hold.stuck,
            since: stamp(hold.since),
            message,
        };
        let Hold { expected, changes_at, lasts, .. } = hold;
        Self { count, blocker: Some(blocker), expected, changes_at, lasts }
    }

    /// Takes over the time of the same blocker from an earlier status, where that is older.
    ///
    /// Some causes, such as the pod rules, leave no time in an object. Their time is that of the first
    /// judgement, which only the status remembers.
    pub fn keep_since(&mut self, before: &[DrainBlocker], now: DateTime<Utc>) {
        let Some(blocker) = &mut self.blocker else { return };
        let same = |old: &&DrainBlocker| {
            (&old.node, &old.pod, &old.reason) == (&blocker.node, &blocker.pod, &blocker.reason)
        };
        let old = before.iter().find(same).map(|old| old.since);
        if self.lasts {
            blocker.since = old.unwrap_or_else(|| stamp(now));
            let lasts = after(blocker.since.0, STUCK_AFTER_SECONDS);
            blocker.stuck = lasts <= now;
            self.changes_at = (now < lasts).then_some(lasts);
        } else if let Some(old) = old {
            blocker.since = blocker.since.min(old);
        }
    }
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
