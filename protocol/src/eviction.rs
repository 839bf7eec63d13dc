//! What became of an attempt to evict or delete.

use chrono::{DateTime, Utc};
use evacuation_api::EvacuationStatus;

use crate::PodView;

/// How long an attempt may take, in seconds. Post it with this timeout, on the client's side and as the query parameter
/// `timeout`: an attempt of which nothing is known is resolved by reading the pod only after it.
pub const ATTEMPT_TIMEOUT_SECONDS: i64 = 10;

/// How often an eviction that a budget holds back is tried anyway, in seconds: a webhook or a stale budget can hide the truth.
pub const PROBE_SECONDS: i64 = 60;

/// What the API said to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EvictionOutcome {
    /// 2xx, or the pod is terminating: it is on its way out.
    Accepted,
    /// 429 with the cause `DisruptionBudget`: a budget allows no disruption.
    BudgetExhausted {
        /// Seconds of `Retry-After`, if any.
        retry_after_seconds: Option<u32>,
        /// The causes' messages, or else the status' message.
        message: String,
        /// The names of the budgets that select the pod.
        budgets: Vec<String>,
    },
    /// 500, because more than one budget selects the pod.
    MultipleBudgets {
        /// The status' message.
        message: String,
        /// The names of the budgets.
        budgets: Vec<String>,
    },
    /// Any other refusal: a webhook's, a 403, a 409 that is not about the UID, a 5xx.
    Rejected {
        /// Seconds of `Retry-After`, if any.
        retry_after_seconds: Option<u32>,
        /// The status' message.
        message: String,
    },
    /// 404: the pod went before the attempt.
    PodGone,
    /// 409, because the pod of that name has another UID: the target went before the attempt.
    UidMismatch,
    /// The reply was lost, and the pod, read after [`ATTEMPT_TIMEOUT_SECONDS`], is not terminating.
    NotTaken,
}

impl EvictionOutcome {
    /// The outcome of an attempt of which nothing is known, from the pod read live after [`ATTEMPT_TIMEOUT_SECONDS`].
    /// A pod that is gone counts as evicted by the attempt.
    pub fn from_pod(pod: &PodView) -> Self {
        match pod {
            PodView::Gone | PodView::Replaced => Self::Accepted,
            PodView::Live(pod) if pod.terminating_until.is_some() => Self::Accepted,
            PodView::Live(_) => Self::NotTaken,
        }
    }
}

/// How long to wait before the next attempt, in milliseconds: 1 s doubled with each attempt up to 60 s, less up to a
/// quarter by `jitter` (from 0 to 1), and at least what the API asked for.
pub fn retry_delay(attempts: i32, retry_after_seconds: Option<u32>, jitter: f64) -> i64 {
    let _ = (attempts, retry_after_seconds, jitter);
    unimplemented!()
}

/// The status with the outcome of the attempt in flight recorded, to be written by the controller. `jitter` is from 0 to 1.
///
/// A budget's refusal sets `nextAttemptTime` to the next probe; the queue of the budget may let the pod go before that.
#[must_use]
pub fn record_eviction(
    status: &EvacuationStatus,
    outcome: &EvictionOutcome,
    jitter: f64,
    now: DateTime<Utc>,
) -> EvacuationStatus {
    let _ = (status, outcome, jitter, now);
    unimplemented!()
}
