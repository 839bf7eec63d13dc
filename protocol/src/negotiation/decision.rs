//! The decision: acts of the controller, and the time of the next look.

use chrono::{DateTime, Utc};
use evacuation_api::{EvacuationStatus, ReviewAction};

/// A question to post to a responder's endpoint. Equal questions are one question. Retry it only when the
/// post failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    /// The responder's name.
    pub responder: String,
    /// The kind of the question.
    pub action: ReviewAction,
    /// The time since which the question is due. It tells one round from the next.
    pub due: DateTime<Utc>,
}

/// One act of the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Write the status, guarded by the resourceVersion that was decided on. Then decide again with the
    /// object that the server returned. It is the only act of its decision.
    WriteStatus(Box<EvacuationStatus>),
    /// Post the eviction with the target's UID as precondition, then record the outcome. The attempt is
    /// recorded.
    Evict {
        /// In seconds; the pod's own when absent.
        grace_period_seconds: Option<i64>,
    },
    /// Delete the pod with its UID as precondition, then record the outcome. The attempt is recorded.
    Delete {
        /// In seconds; the pod's own when absent.
        grace_period_seconds: Option<i64>,
    },
    /// Read the pod live and record [`EvictionOutcome::from_pod`](crate::EvictionOutcome::from_pod). This
    /// process knows nothing of the recorded attempt.
    ResolveInFlight,
    /// Post a question that was not delivered yet.
    Push(Push),
    /// Remove the finalizer [`CANCELLATION_FINALIZER`](evacuation_api::CANCELLATION_FINALIZER).
    ReleaseFinalizer,
    /// Delete the Evacuation, guarded by its UID and resourceVersion: its time to live is over.
    Remove,
}

/// The acts to do now, and the time of the next look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The acts to do now, in this order.
    pub acts: Vec<Act>,
    /// The time to decide again if nothing changes before.
    pub wake_at: Option<DateTime<Utc>>,
}
