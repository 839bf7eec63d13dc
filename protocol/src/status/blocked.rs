//! The condition Blocked: the reasons why an eviction waits.

use chrono::{DateTime, Utc};
use evacuation_api::{BlockedReason, Blocker, ConditionType, EvacuationStatus};

use super::{condition::set, message::truncated};

/// A reason why an eviction waits: the condition Blocked, and the objects that hold the eviction back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) reason: BlockedReason,
    pub(crate) message: String,
    pub(crate) blockers: Vec<Blocker>,
}

impl Block {
    /// Returns a block without a blocker. A message that is too long is cut.
    pub(crate) fn new(reason: BlockedReason, message: &str) -> Self {
        Self { reason, message: truncated(message), blockers: Vec::new() }
    }

    /// Returns a block by these budgets.
    pub(crate) fn budgets<T: AsRef<str>>(reason: BlockedReason, names: &[T], message: &str) -> Self {
        let blocker = |name: &T| Blocker {
            kind: "PodDisruptionBudget".to_owned(),
            name: name.as_ref().to_owned(),
            message: None,
        };
        Self { blockers: names.iter().map(blocker).collect(), ..Self::new(reason, message) }
    }

    /// Returns a block by that responder.
    pub(crate) fn responder(reason: BlockedReason, name: &str, message: &str) -> Self {
        let blocker = Blocker { kind: "Responder".to_owned(), name: name.to_owned(), message: None };
        Self { blockers: vec![blocker], ..Self::new(reason, message) }
    }

    /// Writes the condition and the blockers.
    pub(crate) fn put(self, status: &mut EvacuationStatus, now: DateTime<Utc>) {
        set(status, ConditionType::Blocked, true, self.reason.as_str(), &self.message, now);
        status.eviction.get_or_insert_default().blocked_by = self.blockers;
    }
}
