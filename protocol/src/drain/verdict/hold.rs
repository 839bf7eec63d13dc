//! The cause that holds one pod, before it becomes a blocker.

use chrono::{DateTime, Utc};
use evacuation_api::DrainBlockerReason;

use super::{DrainedPod, STUCK_AFTER_SECONDS, text};
use crate::{drain::message::message, time::after};

/// A cause that holds a pod: not stuck, unless it says so.
pub(super) struct Hold {
    pub(super) reason: DrainBlockerReason,
    pub(super) object: Option<String>,
    pub(super) stuck: bool,
    pub(super) since: DateTime<Utc>,
    pub(super) expected: Option<DateTime<Utc>>,
    pub(super) changes_at: Option<DateTime<Utc>>,
    /// See [`PodJudgement::keep_since`](super::PodJudgement::keep_since).
    pub(super) lasts: bool,
    cause: String,
    way_out: String,
}

impl Hold {
    /// Returns a hold by that object. The cause and the way out are parts of a sentence.
    pub(super) fn new(
        reason: DrainBlockerReason,
        object: String,
        since: DateTime<Utc>,
        cause: String,
        way_out: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            object: Some(object),
            stuck: false,
            since,
            expected: None,
            changes_at: None,
            lasts: false,
            cause,
            way_out: way_out.into(),
        }
    }

    /// Marks it as one that nothing but a change ends.
    pub(super) fn stuck(self) -> Self {
        Self { stuck: true, changes_at: None, ..self }
    }

    /// Marks it as one that the cluster may end by itself until that time, and a change afterwards.
    pub(super) fn stuck_from(self, time: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        if now < time { Self { changes_at: Some(time), ..self } } else { self.stuck() }
    }

    /// Marks it as stuck once it has lasted for [`STUCK_AFTER_SECONDS`].
    pub(super) fn stuck_when_it_lasts(self, now: DateTime<Utc>) -> Self {
        let time = after(self.since, STUCK_AFTER_SECONDS);
        self.stuck_from(time, now)
    }

    /// Marks it as one whose cause leaves no time in an object: a drain, which remembers it, counts from when
    /// it first sees the cause. All others count from `since`, which can be earlier.
    pub(super) fn stuck_when_it_is_seen_to_last(self, now: DateTime<Utc>) -> Self {
        Self { lasts: true, ..self.stuck_when_it_lasts(now) }
    }

    /// Marks it as one that the pod's own end ends, if the pod ends by itself.
    pub(super) fn until_it_ends(self, pod: &DrainedPod<'_>) -> Self {
        if !(self.stuck || self.lasts) || !pod.ends_by_itself() {
            return self;
        }
        let way_out =
            format!("nothing is needed if the pod ends by itself, as those of a Job; or {}", self.way_out);
        Self { stuck: false, lasts: false, changes_at: None, way_out, ..self }
    }

    /// Marks it as one that the deletion behind the request ends at its first try after that time.
    pub(super) fn until_it_passes(self, time: DateTime<Utc>, way_out: String, now: DateTime<Utc>) -> Self {
        Self { stuck: false, lasts: false, changes_at: (now < time).then_some(time), way_out, ..self }
    }

    /// Marks it as one that a deadline ends at that time by deleting the pod.
    pub(super) fn until_deleted(self, time: DateTime<Utc>) -> Self {
        let way_out =
            format!("nothing is needed, because its deadline deletes the pod at {}", text::time(time));
        Self { stuck: false, lasts: false, expected: Some(time), changes_at: Some(time), way_out, ..self }
    }

    pub(super) fn expected(self, expected: Option<DateTime<Utc>>) -> Self {
        Self { expected, ..self }
    }

    pub(super) fn changing_at(self, changes_at: Option<DateTime<Utc>>) -> Self {
        Self { changes_at, ..self }
    }

    /// Returns the cause and the way out.
    pub(super) fn message(&self) -> String {
        message(&self.cause, Some(&self.way_out))
    }
}
