//! Asking the responders, one after the other.

use evacuation_api::{
    Answer, BlockedReason, RefusalPolicy, ResponderEntry, ResponderState, ResponderStatus, SELF_RESPONDER,
};

use super::{Blockage, OUTAGE_GRACE_SECONDS, Step};
use crate::{
    LivePod, Registered, World,
    block::Block,
    lapse::lapse_time,
    phase::is_done,
    policy::forced,
    time::{after, sooner, stamp},
};

/// Where the negotiation stands.
pub(super) enum Negotiation {
    /// A responder has the say.
    Waiting(Blockage),
    /// Every responder is done.
    Done,
    /// A responder refused and the policy is `GiveUp`. Says who, and why.
    Refused(String),
}

/// What becomes of the Active responder.
enum Turn {
    /// It keeps the say.
    Keeps(Blockage),
    /// It is done, for that reason if it was passed over.
    Ends(ResponderState, Option<String>),
    /// It refused for all.
    Refused(String),
}

/// The responders of a pod that these registered for, none of them asked yet.
pub(super) fn responders(registered: &Registered) -> Vec<ResponderStatus> {
    registered.entries.iter().map(unasked).collect()
}

fn unasked(entry: &ResponderEntry) -> ResponderStatus {
    ResponderStatus {
        name: entry.name.clone(),
        priority: entry.priority(),
        timeout_seconds: entry.timeout_seconds(),
        max_delay_seconds: entry.max_delay_seconds(),
        http: entry.http.clone(),
        service: entry.service.clone(),
        state: ResponderState::Inactive,
        active_time: None,
        asked_time: None,
        answer: None,
        answer_time: None,
        delay_until: None,
        retry_time: None,
        reason: None,
        message: None,
        cancellation_acknowledged: false,
    }
}

impl Step<'_> {
    /// Takes the responders as far as they can go now: each that is done hands on to the next at once.
    pub(super) fn negotiate(&mut self, world: &World, pod: &LivePod) -> Negotiation {
        let mut all = self.next.responders.clone().unwrap_or_default();
        let mut outcome = Negotiation::Done;
        for responder in all.iter_mut().filter(|r| !is_done(r.state)) {
            if responder.state == ResponderState::Inactive {
                if let Some(why) = self.passed_over(responder, world, pod) {
                    responder.state = ResponderState::Interrupted;
                    responder.message = Some(why);
                    continue;
                }
                responder.state = ResponderState::Active;
                responder.active_time = Some(stamp(self.now));
            }
            match self.turn(responder, world) {
                Turn::Ends(state, why) => {
                    responder.state = state;
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

    /// Why a responder is not asked at all, if it is not.
    fn passed_over(&self, responder: &ResponderStatus, world: &World, pod: &LivePod) -> Option<String> {
        if let Some(deadline) = forced(&self.policy) {
            return Some(format!("the deadline of requester {} was reached", deadline.requester));
        }
        let is_self = responder.name == SELF_RESPONDER;
        if is_self && !pod.running_container {
            return Some("it cannot be asked: no container of the pod runs".to_owned());
        }
        (is_self && !world.node_reachable)
            .then(|| "it cannot be asked: the pod's node does not answer".to_owned())
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
        let unrecorded = responder.answer.is_none() && responder.asked_time.is_none();
        if responder.is_pushed() && unrecorded && world.asked.as_deref() == Some(responder.name.as_str()) {
            responder.asked_time = Some(stamp(self.now));
        }
        let grace = world.recovered_at.map(|time| after(time, OUTAGE_GRACE_SECONDS));
        if let Some(lapse) = lapse_time(responder).map(|lapse| grace.map_or(lapse, |grace| lapse.max(grace)))
        {
            if lapse <= self.now {
                return Turn::Ends(ResponderState::Interrupted, Some(silence(responder)));
            }
            self.wake_at = sooner(self.wake_at, Some(lapse));
        }
        Turn::Keeps(match (&world.registered.unreadable, responder.answer) {
            (Some(problem), None) if responder.name == SELF_RESPONDER => {
                let message = format!("the annotation evacuation.dev/responders cannot be read: {problem}");
                Blockage::By(Block::responder(BlockedReason::UnreadableResponders, &responder.name, &message))
            }
            _ => Blockage::None,
        })
    }
}

fn silence(responder: &ResponderStatus) -> String {
    match responder.answer {
        Some(Answer::Delay) => "its delay ran out without another answer".to_owned(),
        _ => format!("it was silent for {} s", responder.timeout_seconds),
    }
}

/// A refusal in words: who, and why.
fn refusal(responder: &ResponderStatus) -> String {
    let mut text = format!("responder {} refused", responder.name);
    for part in [&responder.reason, &responder.message].into_iter().flatten() {
        text.push_str(": ");
        text.push_str(part);
    }
    text
}
