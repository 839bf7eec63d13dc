//! Asking the responders, one after the other.

use evacuation_api::{Answer, BlockedReason, RefusalPolicy, ResponderState, ResponderStatus, SELF_RESPONDER};

use super::{
    World,
    step::{Blockage, Step},
};
use crate::{
    pod::LivePod,
    policy::forced,
    responders::{NODE_UNREACHABLE, activate, expiry_time, has_no_container, unreadable},
    status::Block,
    time::{after, stamp},
};

/// Period after an outage of the API in which no answer expires, in seconds, so that apps can answer.
/// Deadlines still act.
pub const OUTAGE_GRACE_SECONDS: i64 = 30;

const UNREACHABLE: &str = "it cannot be asked: the pod's node does not answer";

/// The state of the negotiation.
pub(super) enum Negotiation {
    /// A responder is Active.
    Waiting(Blockage),
    /// Every responder is done.
    Done,
    /// A responder refused and the policy is `GiveUp`. Holds the responder's name and reason.
    Refused(String),
}

/// The next state of the Active responder.
enum Turn {
    /// It stays Active.
    Keeps(Blockage),
    /// It is done, for that reason if it was passed over.
    Ends(ResponderState, Option<String>),
    /// It refused, and the policy is `GiveUp`.
    Refused(String),
}

impl Step<'_> {
    /// Moves the responders as far as they can go now. Each responder that is done is followed by the next at
    /// once.
    pub(super) fn negotiate(&mut self, world: &World, pod: &LivePod) -> Negotiation {
        let Some(mut all) = self.next.responders.clone() else {
            // Stored by a server that did not fix the responders at creation. The pod's app may want to
            // answer: only a deadline passes over it.
            let acts = forced(&self.policy).is_some();
            return if acts { Negotiation::Done } else { Negotiation::Waiting(Blockage::None) };
        };
        let mut outcome = Negotiation::Done;
        for responder in all.iter_mut().filter(|r| !r.state.is_done()) {
            if responder.state == ResponderState::Inactive {
                if let Some(why) = self.passed_over(responder, world, pod) {
                    responder.state = ResponderState::Interrupted;
                    responder.message = Some(why);
                    continue;
                }
                activate(responder, self.now);
            }
            match self.turn(responder, world) {
                Turn::Ends(state, why) => {
                    responder.state = state;
                    if why.as_deref() == Some(UNREACHABLE) {
                        responder.reason = Some(NODE_UNREACHABLE.to_owned());
                    }
                    responder.message = why.or(responder.message.take());
                }
                Turn::Keeps(blockage) => {
                    outcome = Negotiation::Waiting(blockage);
                    self.push_questions(responder);
                    break;
                }
                Turn::Refused(message) => {
                    outcome = Negotiation::Refused(message);
                    break;
                }
            }
        }
        self.next.responders = Some(all);
        outcome
    }

    /// Returns the reason why a responder is not asked at all, if there is one.
    fn passed_over(&self, responder: &ResponderStatus, world: &World, pod: &LivePod) -> Option<String> {
        if let Some(deadline) = forced(&self.policy) {
            return Some(format!("the deadline of requester {} was reached", deadline.requester));
        }
        if has_no_container(responder, pod) {
            return Some("it cannot be asked: no container of the pod runs".to_owned());
        }
        let unreachable = responder.name == SELF_RESPONDER && world.node_silent_since.is_some();
        unreachable.then(|| UNREACHABLE.to_owned())
    }

    fn turn(&mut self, responder: &mut ResponderStatus, world: &World) -> Turn {
        let overridden = self.policy.on_refusal == RefusalPolicy::Override;
        match responder.answer {
            Some(Answer::Accept) => return Turn::Ends(ResponderState::Completed, None),
            Some(Answer::Refuse) if overridden => return Turn::Ends(ResponderState::Completed, None),
            _ => {}
        }
        if let Some(deadline) = forced(&self.policy) {
            let why = format!("the deadline of requester {} was reached", deadline.requester);
            return Turn::Ends(ResponderState::Interrupted, Some(why));
        }
        if responder.answer == Some(Answer::Refuse) {
            let message = refusal(responder);
            if self.policy.on_refusal == RefusalPolicy::GiveUp {
                return Turn::Refused(message);
            }
            let block = Block::responder(BlockedReason::Refused, &responder.name, &message);
            return Turn::Keeps(Blockage::By(block));
        }
        if asked_while_unreachable(responder, world) {
            return Turn::Ends(ResponderState::Interrupted, Some(UNREACHABLE.to_owned()));
        }
        let unrecorded = responder.answer.is_none() && responder.asked_time.is_none();
        if responder.is_pushed() && unrecorded && world.asked.as_deref() == Some(responder.name.as_str()) {
            responder.asked_time = Some(stamp(self.now));
        }
        let grace = world.recovered_at.map(|time| after(time, OUTAGE_GRACE_SECONDS));
        if let Some(expiry) =
            expiry_time(responder).map(|expiry| grace.map_or(expiry, |grace| expiry.max(grace)))
        {
            if expiry <= self.now {
                return Turn::Ends(ResponderState::Interrupted, Some(silence(responder)));
            }
            self.wake(expiry);
        }
        Turn::Keeps(unreadable(&self.next, responder).map_or(Blockage::None, Blockage::By))
    }
}

/// Returns true when `self` became Active although the pod's node was unreachable. The server does not read
/// nodes.
fn asked_while_unreachable(responder: &ResponderStatus, world: &World) -> bool {
    let is_unanswered_self = responder.name == SELF_RESPONDER && responder.answer.is_none();
    let silent = world.node_silent_since;
    is_unanswered_self
        && silent.is_some_and(|since| responder.active_time.is_some_and(|active| since <= active.0))
}

fn silence(responder: &ResponderStatus) -> String {
    match responder.answer {
        Some(Answer::Delay) => "its delay ran out without another answer".to_owned(),
        _ => format!("it was silent for {} s", responder.timeout_seconds),
    }
}

/// Returns a refusal in words: the responder and its reason.
fn refusal(responder: &ResponderStatus) -> String {
    let mut text = format!("responder {} refused", responder.name);
    for part in [&responder.reason, &responder.message].into_iter().flatten() {
        text.push_str(": ");
        text.push_str(part);
    }
    text
}
