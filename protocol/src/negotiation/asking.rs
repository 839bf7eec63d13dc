//! Asking the responders, one after the other.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, BlockedReason, RefusalPolicy, ResponderState, ResponderStatus, ReviewAction, SELF_RESPONDER,
};

use super::{
    Delivered, World,
    pushing::{question_due, reminder_answered_by},
    step::{Blockage, Step},
};
use crate::{
    pod::{BudgetState, LivePod},
    policy::forced,
    responders::{
        NODE_UNREACHABLE, Turn, activate, answerable_until, expiry_time, has_no_container, is_unreachable,
        turn, unreadable,
    },
    status::{Block, truncated},
    time::{after, stamp},
};

/// Period after an outage of the API in which no answer expires, in seconds, so that apps can answer.
/// Deadlines still act.
pub const OUTAGE_GRACE_SECONDS: i64 = 30;

/// Start of the message of an endpoint that is passed over although it replied.
pub const NO_VALID_ANSWER: &str = "it gave no valid answer";
/// Start of the message of an endpoint that is passed over because no question reached it.
pub const NOT_REACHED: &str = "it could not be reached";
/// Start of the message of an endpoint that no question has reached yet.
pub const NOT_ASKED: &str = "it could not be asked: ";

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
enum Outcome {
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
        for i in 0..all.len() {
            let without_room = self.without_room(&all, i, world, pod);
            let Some(responder) = all.get_mut(i).filter(|responder| !responder.state.is_done()) else {
                continue;
            };
            if responder.state == ResponderState::Inactive {
                if let Some(why) = self.passed_over(responder, world, pod) {
                    responder.state = ResponderState::Interrupted;
                    responder.message = Some(why);
                    continue;
                }
                if let Some(block) = without_room {
                    outcome = Negotiation::Waiting(Blockage::By(block));
                    break;
                }
                activate(responder, self.now);
            }
            match self.answered(responder, world) {
                Outcome::Ends(state, why) => {
                    responder.state = state;
                    if why.as_deref() == Some(UNREACHABLE) {
                        responder.reason = Some(NODE_UNREACHABLE.to_owned());
                    }
                    if why.is_some() {
                        // It names the failure.
                        (responder.message, responder.failure) = (why, None);
                    }
                }
                Outcome::Keeps(blockage) => {
                    outcome = Negotiation::Waiting(blockage);
                    self.push_questions(responder);
                    break;
                }
                Outcome::Refused(message) => {
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

    /// Returns the block of a responder that waits until a budget lets a further pod be asked.
    fn without_room(
        &mut self,
        all: &[ResponderStatus],
        i: usize,
        world: &World,
        pod: &LivePod,
    ) -> Option<Block> {
        let next = all.get(i).filter(|next| next.state == ResponderState::Inactive)?;
        let budget =
            world.no_room.as_deref().filter(|_| world.group.is_empty() || self.evacuation.spec.rehearsal)?;
        let requesters = &self.evacuation.spec.requesters;
        let Turn::WithRoom(latest) = turn(next, all, requesters, &self.policy, pod) else { return None };
        if let Some(latest) = latest {
            if latest <= self.now {
                return None;
            }
            self.wake(latest);
        }
        let message = format!("budget {budget} lets no further pod be asked now");
        let view = world.budgets.iter().find(|view| view.name == budget);
        let message = match view.filter(|view| view.state != BudgetState::Counted) {
            Some(view) => format!("{message}: {}", view.cause()),
            None => message,
        };
        Some(Block::new(BlockedReason::AwaitingTurn, &message))
    }

    fn answered(&mut self, responder: &mut ResponderStatus, world: &World) -> Outcome {
        let overridden = self.policy.on_refusal == RefusalPolicy::Override;
        match responder.answer {
            // Each answer is what the rehearsal wanted to know.
            Some(_) if self.evacuation.spec.rehearsal => {
                return Outcome::Ends(ResponderState::Completed, None);
            }
            Some(Answer::Accept) => return Outcome::Ends(ResponderState::Completed, None),
            Some(Answer::Refuse) if overridden => return Outcome::Ends(ResponderState::Completed, None),
            _ => {}
        }
        if let Some(deadline) = forced(&self.policy) {
            let why = format!("the deadline of requester {} was reached", deadline.requester);
            return Outcome::Ends(ResponderState::Interrupted, Some(why));
        }
        let is_refused = responder.answer == Some(Answer::Refuse);
        if is_refused && self.policy.on_refusal == RefusalPolicy::GiveUp {
            return Outcome::Refused(refusal(responder));
        }
        let is_its = |asked: &&Delivered| responder.is_pushed() && asked.question.responder == responder.name;
        let asked = world.asked.as_ref().filter(is_its);
        if let Some(failure) = asked.and_then(|asked| self.failed_reminder(responder, asked)) {
            responder.failure = Some(truncated(failure));
        }
        if is_refused {
            let block = Block::responder(BlockedReason::Refused, &responder.name, &refusal(responder));
            return Outcome::Keeps(Blockage::By(block));
        }
        if asked_while_unreachable(responder, world) {
            return Outcome::Ends(ResponderState::Interrupted, Some(UNREACHABLE.to_owned()));
        }
        let is_first = |asked: &&Delivered| asked.question.action == ReviewAction::Ask;
        if let Some(asked) = asked.filter(is_first).filter(|_| responder.answer.is_none()) {
            let known = responder.asked_time;
            if asked.reached.is_some() {
                responder.asked_time.get_or_insert(stamp(self.now));
            } else if asked.unreached.is_some() && known.is_none() {
                responder.unreachable_time.get_or_insert(stamp(self.now));
            }
            // What kept the question from the endpoint is over once it has the question.
            let told = responder.message.take().filter(|_| responder.asked_time == known);
            responder.message = asked.problem.clone().or(told);
        }
        if let Some(expiry) = expiry(responder, asked, world) {
            if expiry <= self.now {
                return Outcome::Ends(ResponderState::Interrupted, Some(silence(responder)));
            }
            self.wake(expiry);
        }
        Outcome::Keeps(unreadable(&self.next, responder).map_or(Blockage::None, Blockage::By))
    }

    /// Returns the last failure of the reminder that is due to an endpoint since its answer.
    fn failed_reminder<'a>(&self, responder: &ResponderStatus, asked: &'a Delivered) -> Option<&'a str> {
        let question = (asked.question.action, asked.question.due);
        let is_due = responder.answer.is_some() && question_due(&self.next, responder) == Some(question);
        asked.problem.as_deref().filter(|_| is_due)
    }
}

/// Returns the time at which an Active responder expires. Our delays are not its silence: it gets time after
/// an outage and after a late reminder, and does not expire while its reply is on the way to its record. An
/// endpoint does not expire before this process has tried to ask it.
fn expiry(responder: &ResponderStatus, asked: Option<&Delivered>, world: &World) -> Option<DateTime<Utc>> {
    if asked.is_some_and(|asked| asked.replied) {
        return None;
    }
    let grace = world.recovered_at.map(|time| after(time, OUTAGE_GRACE_SECONDS));
    let asks_endpoint = responder.is_pushed() && responder.answer.is_none();
    let tried = asked.and_then(Delivered::tried).filter(|_| asks_endpoint);
    if asks_endpoint && tried.is_none() {
        return None;
    }
    let answerable = tried.map(|time| answerable_until(responder, time));
    let by = [grace, answerable, reminder_answered_by(responder, asked)];
    expiry_time(responder).map(|expiry| by.into_iter().flatten().fold(expiry, DateTime::max))
}

/// Returns true when `self` became Active although the pod's node was unreachable. The server does not read
/// nodes.
fn asked_while_unreachable(responder: &ResponderStatus, world: &World) -> bool {
    let is_unanswered_self = responder.name == SELF_RESPONDER && responder.answer.is_none();
    let silent = world.node_silent_since;
    is_unanswered_self
        && silent.is_some_and(|since| responder.active_time.is_some_and(|active| since <= active.0))
}

/// Returns the reason why a responder whose time is over is passed over.
fn silence(responder: &ResponderStatus) -> String {
    match responder.answer {
        Some(Answer::Delay) => match &responder.failure {
            Some(failure) => format!("its delay ran out without a valid renewal: {failure}"),
            None => "its delay ran out without another answer".to_owned(),
        },
        _ => match &responder.message {
            Some(problem) if is_unreachable(responder) => {
                let problem = problem.strip_prefix(NOT_ASKED).unwrap_or(problem);
                format!("{NOT_REACHED} for {} s: {problem}", responder.timeout_seconds)
            }
            Some(problem) => format!("{NO_VALID_ANSWER} in {} s: {problem}", responder.timeout_seconds),
            None => format!("it was silent for {} s", responder.timeout_seconds),
        },
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
