//! Questions to endpoints: a controller posts them, tries again until they reach their endpoint, and writes
//! the replies to the server.

use evacuation_protocol::{Delivered, Push, question};

use crate::{
    Negotiation,
    config::{at, responder_name},
    history::Heard,
    state::{Question, State, Version},
};

/// Begins to post a question. A later question takes the place of an earlier one. Returns false for one that
/// was begun before.
pub(crate) fn begin_question(state: &mut State, controller: usize, object: usize, push: Push) -> bool {
    let me = state.controllers.get_mut(controller);
    let Some(place) = me.and_then(|me| me.questions.get_mut(object)) else { return false };
    if place.as_ref().is_some_and(|known| known.delivered.question == push) {
        return false;
    }
    let delivered = Delivered {
        question: push,
        reached: None,
        unreached: None,
        sent: None,
        replied: false,
        problem: None,
    };
    *place = Some(Question { delivered, reply: None });
    true
}

impl Negotiation {
    /// Returns what a controller knows of the question that it posted last.
    pub(crate) fn delivered(&self, question: Option<&Question>) -> Option<Delivered> {
        let mut delivered = question?.delivered.clone();
        if !self.config.rules.counts_delivery {
            delivered.reached = delivered.reached.map(|_| delivered.question.due);
        }
        delivered.replied &= self.config.rules.keeps_replies;
        Some(delivered)
    }

    /// A question reaches its endpoint, and tells it until when it may answer. `None` when the responder's
    /// turn is over, so that the controller no longer posts the question.
    pub(crate) fn reach(state: &mut State, controller: usize, object: usize) -> Option<()> {
        let now = state.now;
        let (known, place) = posting(state, controller, object)?;
        place.delivered.reached = Some(at(now));
        let delivered = place.delivered.clone();
        let Push { responder, action, .. } = &delivered.question;
        let told = question(&known, responder, *action, at(now))?.answer_by?;
        let heard = heard_mut(state, object, &delivered)?;
        heard.reached.get_or_insert(now);
        heard.question.told = Some((told.0 - at(0)).num_seconds());
        Some(())
    }

    /// A question does not reach its endpoint, by the endpoint's own fault. The controller tries again.
    pub(crate) fn miss(state: &mut State, controller: usize, object: usize) -> Option<()> {
        let now = state.now;
        let (_, place) = posting(state, controller, object)?;
        place.delivered.unreached = Some(at(now));
        let delivered = place.delivered.clone();
        heard_mut(state, object, &delivered)?.question.missed.get_or_insert(now);
        Some(())
    }

    /// An endpoint replies to the question that reached it.
    pub(crate) fn reply(state: &mut State, controller: usize, object: usize, say: crate::Say) -> Option<()> {
        let place = state.controllers.get_mut(controller)?.questions.get_mut(object)?.as_mut()?;
        place.reply = Some(say);
        place.delivered.replied = true;
        let delivered = place.delivered.clone();
        heard_mut(state, object, &delivered)?.question.replied = true;
        Some(())
    }

    /// A reply of an endpoint reaches the server, which may refuse it.
    pub(crate) fn relay(&self, state: &mut State, controller: usize, object: usize) -> Option<()> {
        let place = state.controllers.get_mut(controller)?.questions.get_mut(object)?.as_mut()?;
        let say = place.reply.take()?;
        place.delivered.replied = false;
        let delivered = place.delivered.clone();
        let responder = responder_of(state, object, &delivered)?;
        heard_mut(state, object, &delivered)?.question.replied = false;
        // What the server does not take is no answer.
        let _ = self.say(state, object, responder, say);
        Some(())
    }

    /// In a fair world a question reaches its endpoint, and a reply the server. Returns true when something
    /// changed.
    pub(crate) fn carry_question_on(&self, state: &mut State, controller: usize) -> bool {
        (0..state.objects.len()).any(|object| {
            let question = state.controllers.get(controller).and_then(|me| me.questions.get(object));
            match question {
                Some(Some(question)) if question.reply.is_some() => {
                    self.relay(state, controller, object).is_some()
                }
                Some(Some(question)) if question.delivered.reached.is_none() => {
                    Self::reach(state, controller, object).is_some()
                }
                _ => false,
            }
        })
    }
}

impl State {
    /// Returns true when the endpoint of that question has a question to answer.
    pub(crate) fn is_told(&self, object: usize, delivered: &Delivered) -> bool {
        let heard = responder_of(self, object, delivered)
            .and_then(|index| self.objects.get(object)?.history.responders.get(index));
        heard.is_some_and(|heard| heard.question.told.is_some())
    }

    /// Returns true when every responder of every Evacuation is done.
    pub(crate) fn has_no_question_left(&self) -> bool {
        let done = |version: Version| {
            let responders = version.status().responders.unwrap_or_default();
            responders.iter().all(|responder| responder.state.is_done())
        };
        (0..self.objects.len()).all(|object| self.stored(object).is_none_or(done))
    }
}

/// Returns the Evacuation as the controller knows it, and the question that it posts of it.
fn posting(state: &mut State, controller: usize, object: usize) -> Option<(Version, &mut Question)> {
    let me = state.controllers.get_mut(controller)?;
    let known = me.cache.get(object)?.clone()?;
    let question = me.questions.get_mut(object)?.as_mut()?;
    Some((known, question))
}

fn responder_of(state: &State, object: usize, delivered: &Delivered) -> Option<usize> {
    let count = state.objects.get(object)?.history.responders.len();
    (0..count).find(|index| responder_name(*index) == delivered.question.responder)
}

fn heard_mut<'a>(state: &'a mut State, object: usize, delivered: &Delivered) -> Option<&'a mut Heard> {
    let index = responder_of(state, object, delivered)?;
    state.objects.get_mut(object)?.history.responders.get_mut(index)
}
