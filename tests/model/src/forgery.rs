//! Forgeries: the writes of a faulty controller.

use evacuation_api::{ConditionType, FailedReason, ResponderState, condition_time};
use evacuation_protocol::is_finished;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    Negotiation,
    config::at,
    state::{State, Write},
};

/// A write that no decision led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forgery {
    /// The next responder is asked, although another is Active.
    AskNext,
    /// The active responder is passed over.
    PassOver,
    /// The active responder is said to be done.
    Complete,
    /// An attempt is recorded.
    Attempt,
    /// The Evacuation is said to have been refused.
    Refuse,
    /// An Evacuation that has ended is active again.
    Revive,
}

impl Forgery {
    /// Every one.
    pub(crate) const ALL: [Self; 6] =
        [Self::AskNext, Self::PassOver, Self::Complete, Self::Attempt, Self::Refuse, Self::Revive];
}

impl Negotiation {
    /// Writes a forgery. `None` when there is nothing to write.
    pub(crate) fn forge(&self, state: &mut State, object: usize, forgery: Forgery) -> Option<()> {
        let base = state.stored(object)?;
        let mut status = base.status();
        if is_finished(&status) != (forgery == Forgery::Revive) {
            return None;
        }
        let mut responders = status.responders.iter_mut().flatten();
        let mut put = |from, to| responders.find(|r| r.state == from).map(|r| r.state = to);
        match forgery {
            Forgery::AskNext => put(ResponderState::Inactive, ResponderState::Active)?,
            Forgery::PassOver => put(ResponderState::Active, ResponderState::Interrupted)?,
            Forgery::Complete => put(ResponderState::Active, ResponderState::Completed)?,
            Forgery::Attempt => {
                let eviction = status.eviction.get_or_insert_default();
                eviction.in_flight = true;
                eviction.attempts += 1;
                eviction.last_attempt_time = Some(at(state.now).into());
            }
            Forgery::Refuse => status.conditions.push(Condition {
                type_: ConditionType::Failed.as_str().to_owned(),
                status: "True".to_owned(),
                reason: FailedReason::Refused.as_str().to_owned(),
                message: String::new(),
                last_transition_time: condition_time(at(state.now)),
                observed_generation: None,
            }),
            Forgery::Revive => {
                status.conditions.clear();
                status.finish_time = None;
            }
        }
        let write = Write {
            by: None,
            object,
            proposed: base.with_status(status),
            base,
            sent: state.now,
            decided: state.now,
            questions: state.questions(object),
        };
        self.write_status(state, &write, true);
        Some(())
    }
}
