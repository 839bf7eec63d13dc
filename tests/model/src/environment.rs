//! The environment: the pod, the clock, the processes, and the requests in progress.

use evacuation_protocol::EvictionOutcome;

use crate::{
    controller::{Look, attempt_of, forget},
    judge::judge_eviction,
    state::{Controller, Eviction, Pod, State, Step},
};

/// The grace period of a pod, in seconds.
const GRACE_SECONDS: i64 = 2;

impl State {
    /// Advances the clock. A request that did not arrive in its time never arrives, and its sender gets no
    /// reply.
    pub(crate) fn pass(&mut self, until: i64) {
        self.now = until;
        let (late, rest): (Vec<_>, Vec<_>) = self.evictions.iter().partition(|e| e.until <= until);
        self.evictions = rest;
        for eviction in &late {
            lose_reply(self, eviction);
        }
    }

    /// An eviction arrives at the API.
    pub(crate) fn land(&mut self, eviction: &Eviction, reply: bool) {
        let held = self.budget == Some(false) && !eviction.deletes;
        let outcome = match self.pod {
            Pod::Gone => EvictionOutcome::PodGone,
            Pod::Terminating { .. } => EvictionOutcome::Accepted,
            Pod::Live if held => EvictionOutcome::BudgetExhausted {
                retry_after_seconds: None,
                message: "no".to_owned(),
                budgets: vec!["budget".to_owned()],
            },
            Pod::Live => {
                judge_eviction(self, eviction);
                self.terminate();
                EvictionOutcome::Accepted
            }
        };
        if !reply {
            lose_reply(self, eviction);
            return;
        }
        if let Some(attempt) = waiting(self, eviction).and_then(|look| attempt_of(self, look)) {
            attempt.step = Step::Over(outcome);
        }
    }

    /// The pod begins to go.
    pub(crate) fn terminate(&mut self) {
        if self.pod == Pod::Live {
            self.pod = Pod::Terminating { until: self.now + GRACE_SECONDS };
        }
    }

    /// Restarts a controller, which lists every object. Its requests are still in progress.
    pub(crate) fn crash(&mut self, controller: usize) {
        let fresh = self.fresh_controller();
        if let Some(place) = self.controllers.get_mut(controller) {
            *place = fresh;
        }
        for object in &mut self.objects {
            object.history.forget_replies();
        }
        for write in self.writes.iter_mut().filter(|w| w.by == Some(controller)) {
            write.by = None;
        }
        for eviction in self.evictions.iter_mut().filter(|e| e.by == Some(controller)) {
            eviction.by = None;
        }
    }

    /// A controller that has just listed everything.
    pub(crate) fn fresh_controller(&self) -> Controller {
        Controller {
            cache: self.objects.iter().map(|o| o.stored.clone()).collect(),
            pod: self.pod,
            attempts: vec![None; self.objects.len()],
            questions: vec![None; self.objects.len()],
        }
    }

    /// The watches of a controller show what there is.
    pub(crate) fn catch_up(&mut self, controller: usize) {
        let (pod, cache) = (self.pod, self.objects.iter().map(|o| o.stored.clone()).collect());
        if let Some(me) = self.controllers.get_mut(controller) {
            me.pod = pod;
            me.cache = cache;
        }
    }
}

fn lose_reply(state: &mut State, eviction: &Eviction) {
    if let Some(look) = waiting(state, eviction) {
        forget(state, look);
    }
}

/// Returns the attempt that waits for the reply to an eviction.
fn waiting(state: &mut State, eviction: &Eviction) -> Option<Look> {
    let look = Look { controller: eviction.by?, object: eviction.object, skew: 0 };
    attempt_of(state, look)
        .filter(|attempt| attempt.number == eviction.number && attempt.step == Step::Posted)
        .map(|_| look)
}
