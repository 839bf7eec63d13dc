//! What the controller does next.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus, ReviewAction};

use crate::World;

/// For how long after an outage of the API nothing lapses, in seconds, so that apps can answer. Deadlines act all the same.
pub const OUTAGE_GRACE_SECONDS: i64 = 30;

/// How long a pod may go on terminating after its grace period before the Evacuation counts as blocked, in seconds.
pub const TERMINATING_MARGIN_SECONDS: i64 = 60;

/// A question to post to a responder's endpoint. Equal questions are one question: post it again only when posting failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    /// The responder's name.
    pub responder: String,
    /// What is meant.
    pub action: ReviewAction,
    /// Since when the question is due; tells one round from the next.
    pub due: DateTime<Utc>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Write the status, guarded by the resourceVersion that was decided on; then decide again with what the server returned.
    /// It comes alone.
    WriteStatus(Box<EvacuationStatus>),
    /// Post the eviction with the target's UID as precondition, then record the outcome. The attempt is recorded.
    Evict {
        /// In seconds; the pod's own when absent.
        grace_period_seconds: Option<i64>,
    },
    /// Delete the pod with its UID as precondition, then record the outcome. The attempt is recorded.
    Delete {
        /// In seconds; the pod's own when absent.
        grace_period_seconds: Option<i64>,
    },
    /// Read the pod live and record [`EvictionOutcome::from_pod`](crate::EvictionOutcome::from_pod): an attempt was
    /// recorded of which nothing is known.
    ResolveInFlight,
    /// Post a question, if it was not delivered yet.
    Push(Push),
    /// Remove the finalizer [`CANCELLATION_FINALIZER`](evacuation_api::CANCELLATION_FINALIZER).
    ReleaseFinalizer,
    /// Delete the Evacuation, guarded by its UID and resourceVersion: its time to live is over.
    Remove,
}

/// What to do, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to do now, in this order.
    pub acts: Vec<Act>,
    /// When to decide again if nothing changes before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// What the controller does next about an Evacuation.
///
/// # Guarantees
///
/// One write carries everything that follows at once: the responder that is done and the next that is asked, or the last that
/// is done and the attempt to evict. [`Act::Evict`] and [`Act::Delete`] are returned only when the attempt is recorded
/// in `evacuation` and [`World::attempt`] says that this process recorded it. Deciding twice on the same input gives the same.
pub fn decide(evacuation: &Evacuation, world: &World, now: DateTime<Utc>) -> Decision {
    let _ = (evacuation, world, now);
    unimplemented!()
}
