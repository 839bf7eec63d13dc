//! The decision: the controller's next step.

use chrono::{DateTime, Utc};
use evacuation_api::{
    AttemptResult, BlockedReason, ConditionType, EvacuatedReason, Evacuation, EvacuationStatus, FailedReason,
    Policy, ReviewAction,
};

mod evicting;
mod finished;
mod negotiating;
mod pushing;

pub use self::negotiating::NODE_UNREACHABLE;
use self::{finished::after_the_end, negotiating::Negotiation};
use crate::{
    Attempt, PodPhase, PodView, World, all_lapsed,
    block::Block,
    ending::{fail, succeed, unblock},
    eviction::is_deletion,
    is_finished,
    policy::{next_change, policy_at},
    time::{after, sooner},
    window::rests,
};

/// Period after an outage of the API in which no answer expires, in seconds, so that apps can answer.
/// Deadlines still act.
pub const OUTAGE_GRACE_SECONDS: i64 = 30;

/// Maximum time for which a pod may terminate after its grace period before the Evacuation counts as blocked,
/// in seconds.
pub const TERMINATING_MARGIN_SECONDS: i64 = 60;

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

/// Decides the controller's next step for an Evacuation.
///
/// # Guarantees
///
/// One write carries everything that follows at once: the responder that is done and the next that is asked,
/// or the last that is done and the attempt to evict. [`Act::Evict`] and [`Act::Delete`] are returned only
/// when `evacuation` records the attempt and [`World::attempt`] is `Recorded`. The same input gives the same
/// decision.
pub fn decide(evacuation: &Evacuation, world: &World, now: DateTime<Utc>) -> Decision {
    let status = evacuation.status.clone().unwrap_or_default();
    if is_finished(&status) {
        return after_the_end(evacuation, &status, world, now);
    }
    let mut step = Step::new(evacuation, &status, now);
    step.advance(world);
    if step.next != status {
        return Decision { acts: vec![Act::WriteStatus(Box::new(step.next))], wake_at: None };
    }
    let wake_at = sooner(step.wake_at, next_change(&step.policy));
    Decision { acts: step.acts, wake_at }
}

/// One look at an active Evacuation: the status to write, the acts once it is written, and the time of the
/// next look.
struct Step<'a> {
    evacuation: &'a Evacuation,
    policy: Policy,
    next: EvacuationStatus,
    acts: Vec<Act>,
    wake_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
}

/// The change of the condition Blocked.
enum Blockage {
    /// No change.
    Unchanged,
    /// Nothing holds the eviction back.
    None,
    /// The eviction is held back.
    By(Block),
}

impl<'a> Step<'a> {
    fn new(evacuation: &'a Evacuation, status: &EvacuationStatus, now: DateTime<Utc>) -> Self {
        let policy = policy_at(&evacuation.spec.requesters, status, now);
        let next = EvacuationStatus {
            policy: Some(policy.clone()),
            observed_generation: evacuation.metadata.generation,
            ..status.clone()
        };
        Self { evacuation, policy, next, acts: Vec::new(), wake_at: None, now }
    }

    fn advance(&mut self, world: &World) {
        let pod = match &world.pod {
            PodView::Live(pod) if pod.phase != PodPhase::Terminal => pod,
            PodView::Live(_) => {
                return self.pod_ended(world, EvacuatedReason::TerminatedInPlace, "the pod has ended");
            }
            PodView::Gone => return self.pod_ended(world, EvacuatedReason::GoneByOther, "the pod is gone"),
            PodView::Replaced => {
                return self.pod_ended(
                    world,
                    EvacuatedReason::GoneByOther,
                    "another pod has the name of the target",
                );
            }
        };
        let blockage = if let Some(until) = pod.terminating_until {
            self.terminating(world, until)
        } else if self.has_lapsed() {
            return fail(
                &mut self.next,
                FailedReason::DeadlineGaveUp,
                "the deadline of the last requester passed",
                self.now,
            );
        } else if rests(&self.evacuation.spec.requesters, &self.next, &self.policy) {
            // What was asked and answered before stays, and counts when somebody wakes.
            Blockage::None
        } else {
            match self.negotiate(world, pod) {
                Negotiation::Refused(message) => {
                    return fail(&mut self.next, FailedReason::Refused, &message, self.now);
                }
                Negotiation::Waiting(blockage) => blockage,
                Negotiation::Done => self.evict(world),
            }
        };
        match blockage {
            Blockage::Unchanged => {}
            Blockage::None => unblock(&mut self.next, self.now),
            Blockage::By(block) => self.block(block),
        }
    }

    /// Ends the Evacuation. The record of the eviction tells whether the eviction caused the end.
    fn pod_ended(&mut self, world: &World, otherwise: EvacuatedReason, message: &str) {
        let eviction = self.next.eviction.clone().unwrap_or_default();
        // A pod that has merely ended shows nothing of an attempt whose reply is not there, and one that is
        // gone shows nothing of an attempt that was not posted.
        let by_attempt = eviction.in_flight
            && otherwise == EvacuatedReason::GoneByOther
            && world.attempt != Attempt::Recorded;
        let reason = if !eviction.accepted && !by_attempt {
            otherwise
        } else if is_deletion(&self.policy, &eviction) {
            EvacuatedReason::Deleted
        } else {
            EvacuatedReason::Evicted
        };
        succeed(&mut self.next, reason, message, self.now);
    }

    /// Returns true when the last requester gave up. An eviction in flight cannot be given up any more.
    fn has_lapsed(&self) -> bool {
        let on_its_way = self.next.eviction.as_ref().is_some_and(|e| e.in_flight || e.accepted);
        !on_its_way && all_lapsed(&self.evacuation.spec.requesters, &self.policy)
    }

    /// Waits for a terminating pod. It is not asked.
    fn terminating(&mut self, world: &World, until: DateTime<Utc>) -> Blockage {
        if let Some(eviction) = self.next.eviction.as_mut().filter(|e| e.in_flight) {
            match world.attempt {
                // The reply will tell.
                Attempt::Posted => {}
                Attempt::Recorded => eviction.in_flight = false,
                Attempt::Unknown => {
                    eviction.in_flight = false;
                    eviction.accepted = true;
                    eviction.last_attempt_result = Some(AttemptResult::Accepted);
                }
            }
        }
        let limit = after(until, TERMINATING_MARGIN_SECONDS);
        if self.now < limit {
            self.wake(limit);
            return Blockage::None;
        }
        Blockage::By(Block::new(
            BlockedReason::Terminating,
            "the pod is terminating and did not go after its grace period",
        ))
    }

    fn block(&mut self, block: Block) {
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

    fn wake(&mut self, at: DateTime<Utc>) {
        self.wake_at = sooner(self.wake_at, Some(at));
    }
}

#[cfg(test)]
mod tests;
