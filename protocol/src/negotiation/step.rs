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
        let known = self
            .next
            .condition(ConditionType::Blocked)
            .filter(|known| known.status == "True" && known.reason == block.reason.as_str());
        let eviction = self.next.eviction.as_ref();
        let blamed = eviction.map(|eviction| eviction.blocked_by.as_slice()).unwrap_or_default();
        let holds = known.is_some_and(|known| {
            // What the API said to an attempt is better than what is said here.
            let by_api = eviction.and_then(|eviction| eviction.message.as_ref()) == Some(&known.message);
            // Each other message is a write. That of a budget changes only with the budget's state.
            known.message == block.message || by_api || !block.tells_budget_state()
        });
        if !holds || blamed != block.blockers {
            block.put(&mut self.next, self.now);
        }
    }

    pub(super) fn wake(&mut self, at: DateTime<Utc>) {
        self.wake_at = sooner(self.wake_at, Some(at));
    }
}
