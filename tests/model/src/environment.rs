//! What happens to the pod, to the time, and to what is under way.

use evacuation_protocol::EvictionOutcome;

use crate::{
    Negotiation,
    controller::{Look, attempt_of, forget},
    judge::judge_eviction,
    state::{Eviction, Pod, State, Step},
};

/// How long a pod takes to go, in seconds.
const GRACE_SECONDS: i64 = 2;

impl Negotiation {
    /// The time passes. What was posted and did not arrive in its time never will, and its poster knows nothing of it.
    pub(crate) fn pass(&self, state: &mut State, until: i64) {
        state.now = until;
        let (late, rest) = state.evictions.drain(..).partition(|e| e.until <= until);
        state.evictions = rest;
        let late: Vec<Eviction> = late;
        for eviction in &late {
            lose_reply(state, eviction);
        }
    }

    /// An eviction arrives at the API.
    pub(crate) fn land(&self, state: &mut State, eviction: Eviction, reply: bool) {
        let held = state.budget == Some(false) && !eviction.deletes;
        let outcome = match state.pod {
            Pod::Gone => EvictionOutcome::PodGone,
            Pod::Terminating { .. } => EvictionOutcome::Accepted,
            Pod::Live if held => EvictionOutcome::BudgetExhausted {
                retry_after_seconds: None,
                message: "no".to_owned(),
                budgets: vec!["budget".to_owned()],
            },
            Pod::Live => {
                judge_eviction(state, &eviction);
                self.terminate(state);
                EvictionOutcome::Accepted
            }
        };
        if !reply {
            lose_reply(state, &eviction);
            return;
        }
        if let Some(attempt) = waiting(state, &eviction).and_then(|look| attempt_of(state, look)) {
            attempt.step = Step::Over(outcome);
        }
    }

    /// The pod begins to go.
    pub(crate) fn terminate(&self, state: &mut State) {
        if state.pod == Pod::Live {
            state.pod = Pod::Terminating {
                until: state.now + GRACE_SECONDS,
            };
        }
    }
}

fn lose_reply(state: &mut State, eviction: &Eviction) {
    if let Some(look) = waiting(state, eviction) {
        forget(state, look);
    }
}

/// Who still waits for the reply to an eviction.
fn waiting(state: &mut State, eviction: &Eviction) -> Option<Look> {
    let look = Look {
        controller: eviction.by?,
        object: eviction.object,
        skew: 0,
    };
    attempt_of(state, look)
        .filter(|attempt| attempt.number == eviction.number && attempt.step == Step::Posted)
        .map(|_| look)
}
