//! The end of a negotiation in a fair world: no user acts, no request is lost, and time passes.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::PoisonError,
};

use evacuation_api::{BlockedReason, DeadlineAction, EvacuationStatus};
use evacuation_protocol::is_finished;

use crate::{
    Negotiation,
    controller::{Look, Looked},
    server::Reply,
    state::{Pod, State},
};

/// Maximum number of steps to an end. Every negotiation needs fewer.
const STEPS: usize = 200;
/// The controller that acts.
const ONE: usize = 0;

impl Negotiation {
    /// Returns true when every Evacuation ends, or waits for a budget or for a responder that refused and
    /// that no deadline overrules. Only one controller acts. It looks only after a change, or at the time
    /// that it named.
    ///
    /// A state with a request in progress counts as ending: other states follow from it that have none.
    pub(crate) fn ends(&self, state: &State) -> bool {
        if !state.writes.is_empty() || !state.evictions.is_empty() {
            return true;
        }
        // What the controllers knew, and what may still happen, does not matter any more.
        let stored: Vec<_> = state.objects.iter().map(|object| &object.stored).collect();
        let mut hasher = DefaultHasher::new();
        (state.now, state.pod, state.budget, stored).hash(&mut hasher);
        let key = hasher.finish();
        let known =
            |memo: &Self| memo.endings.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(known) = known(self) {
            return known;
        }
        let ends = self.plays_out(state);
        self.endings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ends);
        ends
    }

    fn plays_out(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.crash(ONE);
        for _ in 0..STEPS {
            match self.go_on(&mut state) {
                Go::On => {}
                Go::At(time) => state.pass(time),
                Go::Rests => return (0..state.objects.len()).all(|object| rests(&state, object)),
            }
            if (0..state.objects.len()).all(|object| has_ended(&state, object)) {
                return true;
            }
        }
        (0..state.objects.len()).all(|object| rests(&state, object))
    }

    fn go_on(&self, state: &mut State) -> Go {
        if !state.writes.is_empty() {
            let write = state.writes.remove(0);
            let reply = self.write_status(state, &write, false);
            // What is refused is tried again after a pause.
            let refused = matches!(reply, Reply::Refused);
            self.receive(state, &write, reply);
            return if refused { Go::At(state.now + 1) } else { Go::On };
        }
        if !state.evictions.is_empty() {
            let eviction = state.evictions.remove(0);
            state.land(&eviction, true);
            return Go::On;
        }
        if self.carry_question_on(state, ONE) {
            return Go::On;
        }
        let mut next = match state.pod {
            Pod::Terminating { until } if until <= state.now => {
                state.pod = Pod::Gone;
                return Go::On;
            }
            Pod::Terminating { until } => Some(until),
            Pod::Live | Pod::Gone => None,
        };
        state.catch_up(ONE);
        for object in 0..state.objects.len() {
            let look = Look { controller: ONE, object, skew: 0 };
            match self.look(state, look) {
                Looked::Acted => return Go::On,
                Looked::Nothing(wake_at) => {
                    next = [next, wake_at].into_iter().flatten().min();
                }
            }
        }
        next.filter(|time| *time > state.now).map_or(Go::Rests, Go::At)
    }
}

/// The result of one step in a fair world.
enum Go {
    /// Something changed.
    On,
    /// Nothing happens before that time.
    At(i64),
    /// Nothing will ever happen.
    Rests,
}

fn has_ended(state: &State, object: usize) -> bool {
    state.stored(object).is_none_or(|v| is_finished(&v.status()))
}

/// Returns true when an Evacuation has ended, or waits for a budget or a refusal.
fn rests(state: &State, object: usize) -> bool {
    let Some(version) = state.stored(object) else {
        return true;
    };
    let status = version.status();
    if is_finished(&status) {
        return true;
    }
    let acts = |action| {
        let mut requesters = version.spec.requesters.iter();
        requesters.any(|r| r.deadline.is_some() && r.at_deadline.unwrap_or_default() == action)
    };
    let by_budget = state.budget == Some(false) && is_blocked(&status, BlockedReason::BudgetExhausted);
    let by_refusal = is_blocked(&status, BlockedReason::Refused);
    let forced = acts(DeadlineAction::Evict) || acts(DeadlineAction::Delete);
    (by_budget && !acts(DeadlineAction::Delete)) || (by_refusal && !forced)
}

fn is_blocked(status: &EvacuationStatus, reason: BlockedReason) -> bool {
    status
        .conditions
        .iter()
        .any(|c| c.type_ == "Blocked" && c.status == "True" && c.reason == reason.as_str())
}
