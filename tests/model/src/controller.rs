//! The controller: it looks, decides by the protocol, and acts, in the same order as the real controller.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::EvacuationStatus;
use evacuation_protocol::{
    ATTEMPT_TIMEOUT_SECONDS, Act, Attempt, BudgetState, BudgetView, EvictionOutcome, LivePod, PodPhase,
    PodView, World, decide, record_eviction,
};

use crate::{
    Negotiation,
    config::at,
    endpoint::begin_question,
    judge::judge_eviction,
    server::Reply,
    state::{Eviction, Pod, Recorded, State, Step, Version, Write},
};

/// Number of seconds by which an attempt must be over before the end of its time; as in the controller.
const MARGIN_SECONDS: i64 = 1;
/// Maximum duration of an attempt in seconds, counted from the moment at which its record was sent.
const ATTEMPT_SECONDS: i64 = ATTEMPT_TIMEOUT_SECONDS - MARGIN_SECONDS;

/// A look: the controller, the object, and the error of the controller's clock.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) controller: usize,
    pub(crate) object: usize,
    pub(crate) skew: i64,
}

impl Negotiation {
    /// Looks at an Evacuation once, decides and acts.
    pub(crate) fn look(&self, state: &mut State, look: Look) -> Looked {
        let Look { controller, object, .. } = look;
        let waits = state.writes.iter().any(|w| w.by == Some(controller) && w.object == object);
        let me = state.controllers.get(controller);
        let Some(known) = me.and_then(|c| c.cache.get(object).cloned().flatten()).filter(|_| !waits) else {
            return Looked::Nothing(None);
        };
        let now = at(state.now + look.skew);
        let mut acted = false;
        let attempt = me.and_then(|c| c.attempts.get(object).cloned().flatten());
        if let Some(attempt) = &attempt {
            if !known.in_flight() && attempt.step != Step::Posted {
                acted |= forget(state, look);
            } else if let Step::Over(outcome) = &attempt.step
                && known.in_flight()
                && self.is_about(attempt, &known)
            {
                let status = record_eviction(&known.status(), outcome, 0.5, now);
                send(state, look, &known, status);
                return Looked::Acted;
            }
        }
        let Some(world) = self.world(state, look, &known) else {
            return Looked::Nothing(None);
        };
        if !self.config.rules.resolve_late && known.in_flight() && world.attempt == Attempt::Unknown {
            self.act(state, look, &known, Act::ResolveInFlight);
            return Looked::Acted;
        }
        let decision = decide(&known, &world, now);
        for act in decision.acts {
            acted |= self.act(state, look, &known, act);
        }
        if acted {
            return Looked::Acted;
        }
        let wake_at = decision.wake_at.filter(|_| self.config.rules.wake);
        // The clocks show whole seconds, and no reminder comes before its time.
        let seconds =
            |time: DateTime<Utc>| (time - at(0) + TimeDelta::nanoseconds(999_999_999)).num_seconds();
        Looked::Nothing(wake_at.map(|time| seconds(time) - look.skew))
    }

    fn is_about(&self, attempt: &Recorded, known: &Version) -> bool {
        attempt.number == known.attempts() || !self.config.rules.attempts_apart
    }

    fn world(&self, state: &State, look: Look, known: &Version) -> Option<World> {
        let me = state.controllers.get(look.controller)?;
        let budgets = state.budget.map(|free| BudgetView {
            name: "budget".to_owned(),
            disruptions_allowed: i32::from(free),
            current_healthy: 3,
            desired_healthy: 3,
            state: BudgetState::Counted,
            always_allow_unhealthy: false,
        });
        let attempt = me.attempts.get(look.object)?.as_ref();
        Some(World {
            group: Vec::new(),
            no_room: (state.budget == Some(false)).then(|| "budget".to_owned()),
            pod: me.pod.view(),
            node_silent_since: None,
            budgets: budgets.into_iter().collect(),
            turn: state.budget == Some(true),
            // A controller that waits for a place does nothing, and one that does nothing is walked.
            busy: false,
            recovered_at: None,
            asked: self.delivered(me.questions.get(look.object)?.as_ref()),
            attempt: match attempt.filter(|attempt| self.is_about(attempt, known)) {
                None => Attempt::Unknown,
                Some(Recorded { step: Step::Recorded, .. }) => Attempt::Recorded,
                Some(_) => Attempt::Posted,
            },
        })
    }

    /// Returns true when the act changed the world.
    fn act(&self, state: &mut State, look: Look, known: &Version, act: Act) -> bool {
        match act {
            Act::WriteStatus(status) => {
                let begins = !known.in_flight() && status.eviction.as_ref().is_some_and(|e| e.in_flight);
                if begins && !self.config.rules.record_first {
                    let attempt = Recorded {
                        number: known.attempts() + 1,
                        until: state.now + ATTEMPT_SECONDS,
                        step: Step::Recorded,
                    };
                    put_attempt(state, look, attempt);
                    self.post(state, look, false);
                }
                send(state, look, known, *status);
                true
            }
            Act::Evict { .. } => self.post(state, look, false),
            Act::Delete { .. } => self.post(state, look, true),
            Act::ResolveInFlight => {
                let pod = state.pod;
                if let Some(me) = state.controllers.get_mut(look.controller) {
                    me.pod = pod;
                }
                let outcome = EvictionOutcome::from_pod(&pod.view());
                let status = record_eviction(&known.status(), &outcome, 0.5, at(state.now + look.skew));
                send(state, look, known, status);
                true
            }
            Act::ReleaseFinalizer => {
                let stored = state.objects.get_mut(look.object).map(|o| &mut o.stored);
                let released = stored.filter(|s| s.as_ref() == Some(known)).map(Option::take).is_some();
                let cache =
                    state.controllers.get_mut(look.controller).and_then(|c| c.cache.get_mut(look.object));
                if let Some(cache) = cache.filter(|_| released) {
                    *cache = None;
                }
                released
            }
            Act::Push(push) => begin_question(state, look.controller, look.object, push),
            Act::Remove => false,
        }
    }

    /// Posts an attempt that is recorded, once.
    fn post(&self, state: &mut State, look: Look, deletes: bool) -> bool {
        let (now, in_time) = (state.now, self.config.rules.post_in_time);
        let Some(attempt) = attempt_of(state, look).filter(|a| a.step == Step::Recorded) else {
            return false;
        };
        if attempt.until <= now && in_time {
            attempt.step = Step::Over(EvictionOutcome::NotTaken);
            return true;
        }
        attempt.step = Step::Posted;
        attempt.until = if in_time { attempt.until } else { now + ATTEMPT_SECONDS };
        let eviction = Eviction {
            by: Some(look.controller),
            object: look.object,
            number: attempt.number,
            deletes,
            until: attempt.until,
        };
        judge_eviction(state, &eviction);
        state.evictions.push(eviction);
        true
    }

    /// The reply to a write of a status.
    pub(crate) fn receive(&self, state: &mut State, write: &Write, reply: Reply) {
        let Some(controller) = write.by else { return };
        let look = Look { controller, object: write.object, skew: 0 };
        let stored = state.stored(write.object);
        let cached = match reply {
            Reply::Written(version) => {
                if version.in_flight() && !write.base.in_flight() && self.config.rules.record_first {
                    let attempt = Recorded {
                        number: version.attempts(),
                        until: write.sent + ATTEMPT_SECONDS,
                        step: Step::Recorded,
                    };
                    put_attempt(state, look, attempt);
                }
                if write.base.in_flight() && !version.in_flight() {
                    forget(state, look);
                }
                Some(version)
            }
            // It reads again.
            Reply::Conflict => stored,
            Reply::NotFound => None,
            Reply::Refused => return,
        };
        let cache = state.controllers.get_mut(controller).and_then(|c| c.cache.get_mut(write.object));
        if let Some(cache) = cache {
            *cache = cached;
        }
    }
}

/// The result of a look.
pub(crate) enum Looked {
    /// Something was done: look again.
    Acted,
    /// Nothing was done. When to look again, by the server's clock, in seconds.
    Nothing(Option<i64>),
}

pub(crate) fn attempt_of(state: &mut State, look: Look) -> Option<&mut Recorded> {
    let me = state.controllers.get_mut(look.controller)?;
    me.attempts.get_mut(look.object)?.as_mut()
}

fn put_attempt(state: &mut State, look: Look, attempt: Recorded) {
    let me = state.controllers.get_mut(look.controller);
    if let Some(place) = me.and_then(|c| c.attempts.get_mut(look.object)) {
        *place = Some(attempt);
    }
}

pub(crate) fn forget(state: &mut State, look: Look) -> bool {
    let me = state.controllers.get_mut(look.controller);
    me.and_then(|c| c.attempts.get_mut(look.object)).is_some_and(|attempt| attempt.take().is_some())
}

fn send(state: &mut State, look: Look, known: &Version, status: EvacuationStatus) {
    state.writes.push(Write {
        by: Some(look.controller),
        object: look.object,
        base: known.clone(),
        proposed: known.with_status(status),
        sent: state.now,
        decided: state.now + look.skew,
        questions: state.questions(look.object),
    });
}

impl Pod {
    /// The pod as the protocol sees it.
    pub(crate) fn view(self) -> PodView {
        let live = |terminating_until| {
            PodView::Live(LivePod {
                phase: PodPhase::Running,
                terminating_until,
                running_container: true,
                ready: true,
            })
        };
        match self {
            Self::Live => live(None),
            Self::Terminating { until } => live(Some(at(until))),
            Self::Gone => PodView::Gone,
        }
    }
}
