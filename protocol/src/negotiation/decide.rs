//! The controller's next step: the end of the pod, the requesters, the responders, then the eviction.

use chrono::{DateTime, Utc};
use evacuation_api::{AttemptResult, BlockedReason, EvacuatedReason, Evacuation, FailedReason};

use super::{
    Act, Attempt, Decision, World,
    asking::Negotiation,
    finished::after_the_end,
    step::{Blockage, Step, TERMINATING_MARGIN_SECONDS},
};
use crate::{
    eviction::is_deletion,
    pod::{PodPhase, PodView},
    policy::{all_expired, next_change, rests},
    status::{Block, fail, is_finished, succeed, unblock},
    time::{after, sooner},
};

/// Message of a rehearsal that is over.
const REHEARSED: &str = "it was a rehearsal: every responder was asked, and the pod stays";

/// Decides the controller's next step for an Evacuation.
///
/// # Guarantees
///
/// One write carries everything that follows at once: the responder that is done and the next that is asked,
/// or the last that is done and the attempt to evict. [`Act::Evict`] and [`Act::Delete`] are returned only
/// when `evacuation` records the attempt and [`World::attempt`] is `Recorded`. A rehearsal records no
/// attempt: after its last responder it ends. The same input gives the same decision.
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

impl Step<'_> {
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
        } else if self.has_expired() {
            return fail(
                &mut self.next,
                FailedReason::DeadlineGaveUp,
                "the deadline of the last requester passed",
                self.now,
            );
        } else if rests(&self.evacuation.spec.requesters, &self.next, &self.policy) {
            // Earlier questions and answers stay, and count when a requester wakes.
            Blockage::None
        } else if let Some(message) = self.refused_by_group(world) {
            return fail(&mut self.next, FailedReason::PodGroupRefused, &message, self.now);
        } else {
            match self.negotiate(world, pod) {
                Negotiation::Refused(message) => {
                    return fail(&mut self.next, FailedReason::Refused, &message, self.now);
                }
                Negotiation::Waiting(blockage) => blockage,
                // The state and the words of the last responder are recorded before the end.
                Negotiation::Done if self.evacuation.spec.rehearsal && self.moved_responders() => {
                    Blockage::None
                }
                Negotiation::Done if self.evacuation.spec.rehearsal => {
                    return fail(&mut self.next, FailedReason::Rehearsed, REHEARSED, self.now);
                }
                Negotiation::Done => self.held_by_group(world).unwrap_or_else(|| self.evict(world)),
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

    /// Returns true when this step changes a responder.
    fn moved_responders(&self) -> bool {
        let before = self.evacuation.status.as_ref().and_then(|status| status.responders.as_ref());
        self.next.responders.as_ref() != before
    }

    /// Returns true when the last requester gave up. An eviction in flight cannot be given up any more.
    fn has_expired(&self) -> bool {
        let on_its_way = self.next.eviction.as_ref().is_some_and(|e| e.in_flight || e.accepted);
        !on_its_way && all_expired(&self.evacuation.spec.requesters, &self.policy)
    }

    /// Waits for a terminating pod. It is not asked.
    fn terminating(&mut self, world: &World, until: DateTime<Utc>) -> Blockage {
        self.end_callers_time();
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
}

#[cfg(test)]
mod tests;
