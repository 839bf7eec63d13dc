//! Outcomes of attempts to evict or delete.

use evacuation_api::AttemptResult;

use crate::pod::PodView;

/// The outcome of an attempt.
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
    /// The reply was lost, and the pod, read after
    /// [`ATTEMPT_TIMEOUT_SECONDS`](crate::ATTEMPT_TIMEOUT_SECONDS), is not terminating.
    NotTaken,
}

impl EvictionOutcome {
    /// Returns the outcome of an attempt whose reply is unknown, from the pod read live after
    /// [`ATTEMPT_TIMEOUT_SECONDS`](crate::ATTEMPT_TIMEOUT_SECONDS). A pod that is gone counts as evicted by
    /// the attempt.
    pub fn from_pod(pod: &PodView) -> Self {
        match pod {
            PodView::Gone | PodView::Replaced => Self::Accepted,
            PodView::Live(pod) if pod.terminating_until.is_some() => Self::Accepted,
            PodView::Live(_) => Self::NotTaken,
        }
    }

    /// Returns the result that the record of the attempt shows.
    pub fn result(&self) -> AttemptResult {
        match self {
            Self::Accepted => AttemptResult::Accepted,
            Self::NotTaken => AttemptResult::NotTaken,
            Self::BudgetExhausted { .. }
            | Self::MultipleBudgets { .. }
            | Self::Rejected { .. }
            | Self::PodGone
            | Self::UidMismatch => AttemptResult::Rejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RUNNING, at};

    #[test]
    fn an_unknown_attempt_is_resolved_by_reading_the_pod() {
        let terminating = crate::LivePod { terminating_until: Some(at(5)), ..RUNNING };
        for (pod, expected) in [
            (PodView::Gone, EvictionOutcome::Accepted),
            (PodView::Replaced, EvictionOutcome::Accepted),
            (PodView::Live(terminating), EvictionOutcome::Accepted),
            (PodView::Live(RUNNING), EvictionOutcome::NotTaken),
        ] {
            assert_eq!(EvictionOutcome::from_pod(&pod), expected);
        }
    }
}
