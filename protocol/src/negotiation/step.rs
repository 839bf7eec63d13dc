//! One look at an active Evacuation, on which the decision works.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, Evacuation, EvacuationStatus, Policy};

use super::Act;
use crate::{policy::policy_at, status::Block, time::sooner};

/// Maximum time for which a pod may terminate after its grace period before the Evacuation counts as blocked,
/// in seconds.
pub const TERMINATING_MARGIN_SECONDS: i64 = 60;

/// One look at an active Evacuation: the status to write, the acts once it is written, and the time of the
/// next look.
pub(super) struct Step<'a> {
    pub(super) evacuation: &'a Evacuation,
    pub(super) policy: Policy,
    pub(super) next: EvacuationStatus,
    pub(super) acts: Vec<Act>,
    pub(super) wake_at: Option<DateTime<Utc>>,
    pub(super) now: DateTime<Utc>,
}

/// The change of the condition Blocked.
pub(super) enum Blockage {
    /// No change.
    Unchanged,
    /// Nothing holds the eviction back.
    None,
    /// The eviction is held back.
    By(Block),
}

impl<'a> Step<'a> {
    pub(super) fn new(evacuation: &'a Evacuation, status: &EvacuationStatus, now: DateTime<Utc>) -> Self {
        let policy = policy_at(&evacuation.spec.requesters, status, now);
        let next = EvacuationStatus {
            policy: Some(policy.clone()),
            observed_generation: evacuation.metadata.generation,
            ..status.clone()
        };
        Self { evacuation, policy, next, acts: Vec::new(), wake_at: None, now }
    }

    pub(super) fn block(&mut self, block: Block) {
        let same = self
            .next
            .condition(ConditionType::Blocked)
            .is_some_and(|c| c.status == "True" && c.reason == block.reason.as_str());
        let blamed = self.next.eviction.as_ref().map(|e| e.blocked_by.as_slice()).unwrap_or_default();
        // What the API said to an attempt is better than what is said here, and each other message is a
        // write.
        if !same || blamed != block.blockers {
            block.put(&mut self.next, self.now);
        }
    }

    pub(super) fn wake(&mut self, at: DateTime<Utc>) {
        self.wake_at = sooner(self.wake_at, Some(at));
    }
}
