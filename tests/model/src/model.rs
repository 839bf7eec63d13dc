//! The world as a model checker walks it.

use stateright::{Model, Property};

use crate::{
    Forgery, Law, Negotiation, Say,
    config::Entry,
    controller::{Look, Looked},
    state::{Pod, Question, State},
};

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names say it; fields are positions and seconds.
pub enum Action {
    /// The clock advances.
    Pass { until: i64 },
    /// A controller's watch shows what became of an Evacuation.
    See { controller: usize, object: usize },
    /// A controller's watch shows what became of the pod.
    SeePod { controller: usize },
    /// A controller looks, decides and acts.
    Look { controller: usize, object: usize, skew: i64 },
    /// A write of a status reaches the server.
    Deliver { write: usize, reply: bool },
    /// An eviction reaches the API.
    Land { eviction: usize, reply: bool },
    /// A controller dies and restarts.
    Crash { controller: usize },
    /// A question reaches its endpoint.
    Reach { controller: usize, object: usize },
    /// A question does not reach its endpoint.
    Miss { controller: usize, object: usize },
    /// An endpoint replies to the question that reached it.
    Reply { controller: usize, object: usize, say: Say },
    /// The controller that has a reply writes it to the server.
    Relay { controller: usize, object: usize },
    /// A responder says something.
    Say { object: usize, responder: usize, say: Say },
    /// A responder says that it knows of the cancellation.
    Acknowledge { object: usize, responder: usize },
    /// A user puts its entry.
    Put { object: usize, user: usize, entry: Entry },
    /// A user removes an entry; everyone but the owner should fail.
    Leave { object: usize, user: usize, owner: usize },
    /// A user deletes the Evacuation.
    Delete { object: usize, user: usize },
    /// A user creates another Evacuation of the pod.
    Create,
    /// A controller gone mad writes.
    Forge { object: usize, forgery: Forgery },
    /// The budget changes its mind.
    Shift,
    /// Another user deletes the pod.
    Depart,
    /// The pod is gone.
    Go,
}

impl Negotiation {
    fn controller_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (controller, me) in state.controllers.iter().enumerate() {
            for (object, slot) in state.objects.iter().enumerate() {
                if me.cache.get(object) != Some(&slot.stored) {
                    actions.push(Action::See { controller, object });
                }
                for skew in self.config.skews {
                    actions.push(Action::Look { controller, object, skew: *skew });
                }
            }
            if me.pod != state.pod {
                actions.push(Action::SeePod { controller });
            }
            if state.left.crashes > 0 {
                actions.push(Action::Crash { controller });
            }
        }
    }

    fn network_actions(state: &State, actions: &mut Vec<Action>) {
        for write in 0..state.writes.len() {
            actions.push(Action::Deliver { write, reply: true });
            if state.left.losses > 0 {
                actions.push(Action::Deliver { write, reply: false });
            }
        }
        for eviction in 0..state.evictions.len() {
            actions.push(Action::Land { eviction, reply: true });
            if state.left.losses > 0 {
                actions.push(Action::Land { eviction, reply: false });
            }
        }
    }

    /// Adds what can happen to the questions that controllers post.
    fn endpoint_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (controller, me) in state.controllers.iter().enumerate() {
            for (object, question) in me.questions.iter().enumerate() {
                let Some(Question { delivered, reply }) = question else { continue };
                if reply.is_some() {
                    actions.push(Action::Relay { controller, object });
                } else if delivered.reached.is_none() {
                    actions.push(Action::Reach { controller, object });
                    if state.left.misses > 0 && delivered.unreached.is_none() {
                        actions.push(Action::Miss { controller, object });
                    }
                } else if state.left.answers > 0 && state.is_told(object, delivered) {
                    let says = self.config.answers.iter();
                    actions.extend(says.map(|say| Action::Reply { controller, object, say: *say }));
                }
            }
        }
    }

    fn people_actions(&self, state: &State, object: usize, actions: &mut Vec<Action>) {
        for (responder, registered) in self.config.responders.iter().enumerate() {
            if state.left.answers > 0 && !registered.endpoint {
                let says = self.config.answers.iter();
                actions.extend(says.map(|say| Action::Say { object, responder, say: *say }));
                actions.push(Action::Acknowledge { object, responder });
            }
        }
        if state.left.edits > 0 {
            for (user, who) in self.config.users.iter().enumerate() {
                let puts = who.says.iter();
                actions.extend(puts.map(|entry| Action::Put { object, user, entry: *entry }));
                if who.leaves {
                    let owners = 0..self.config.users.len();
                    actions.extend(owners.map(|owner| Action::Leave { object, user, owner }));
                    actions.push(Action::Delete { object, user });
                }
            }
        }
        if state.left.forgeries > 0 {
            actions.extend(Forgery::ALL.map(|forgery| Action::Forge { object, forgery }));
        }
    }

    /// Applies an action. `None` when the state did not change.
    fn apply(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Pass { until } => state.pass(until),
            Action::See { controller, object } => {
                let stored = state.stored(object);
                *state.controllers.get_mut(controller)?.cache.get_mut(object)? = stored;
            }
            Action::SeePod { controller } => state.controllers.get_mut(controller)?.pod = state.pod,
            Action::Look { controller, object, skew } => {
                let look = Look { controller, object, skew };
                return matches!(self.look(state, look), Looked::Acted).then_some(());
            }
            Action::Deliver { write, reply } => {
                let write = state.writes.remove(write);
                let said = self.write_status(state, &write, false);
                if reply {
                    self.receive(state, &write, said);
                } else {
                    state.left.losses -= 1;
                }
            }
            Action::Land { eviction, reply } => {
                state.left.losses -= u8::from(!reply);
                let eviction = state.evictions.remove(eviction);
                state.land(&eviction, reply);
            }
            Action::Crash { controller } => {
                state.left.crashes -= 1;
                state.crash(controller);
            }
            Action::Reach { controller, object } => Self::reach(state, controller, object)?,
            Action::Miss { controller, object } => {
                state.left.misses -= 1;
                Self::miss(state, controller, object)?;
            }
            Action::Reply { controller, object, say } => {
                state.left.answers -= 1;
                Self::reply(state, controller, object, say)?;
            }
            Action::Relay { controller, object } => self.relay(state, controller, object)?,
            Action::Say { object, responder, say } => {
                state.left.answers -= 1;
                self.say(state, object, responder, say)?;
            }
            Action::Acknowledge { object, responder } => {
                state.left.answers -= 1;
                self.acknowledge(state, object, responder)?;
            }
            Action::Put { object, user, entry } => {
                state.left.edits -= 1;
                self.edit(state, object, user, user, Some(entry))?;
            }
            Action::Leave { object, user, owner } => {
                state.left.edits -= 1;
                self.edit(state, object, user, owner, None)?;
            }
            Action::Delete { object, user } => {
                state.left.edits -= 1;
                self.delete(state, object, user)?;
            }
            Action::Create => self.create(state)?,
            Action::Forge { object, forgery } => {
                state.left.forgeries -= 1;
                self.forge(state, object, forgery)?;
            }
            Action::Shift => {
                state.left.shifts -= 1;
                state.budget = state.budget.map(|free| !free);
            }
            Action::Depart => {
                state.left.departures -= 1;
                state.terminate();
            }
            Action::Go => state.pod = Pod::Gone,
        }
        Some(())
    }
}

impl Model for Negotiation {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: 0,
            objects: Vec::new(),
            pod: Pod::Live,
            budget: self.config.budget,
            controllers: Vec::new(),
            writes: Vec::new(),
            evictions: Vec::new(),
            left: self.config.limits,
            broken: crate::Broken::default(),
        };
        let created = self.create(&mut state);
        state.controllers = vec![state.fresh_controller(); self.config.controllers];
        created.map(|()| state).into_iter().collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.broken.is_empty() || (self.config.asks_only && state.has_no_question_left()) {
            return;
        }
        if let Some(until) = self.config.next_instant(state.now) {
            actions.push(Action::Pass { until });
        }
        self.controller_actions(state, actions);
        Self::network_actions(state, actions);
        self.endpoint_actions(state, actions);
        for object in 0..state.objects.len() {
            self.people_actions(state, object, actions);
        }
        if state.left.objects > 0 {
            actions.push(Action::Create);
        }
        if state.left.shifts > 0 && state.budget.is_some() {
            actions.push(Action::Shift);
        }
        match state.pod {
            Pod::Live if state.left.departures > 0 => actions.push(Action::Depart),
            Pod::Terminating { .. } => actions.push(Action::Go),
            Pod::Live | Pod::Gone => {}
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action).map(|()| state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = Property::always;
        vec![
            always(Law::OneResponder.words(), holds::<{ Law::OneResponder as u8 }>),
            always(Law::OneEvacuation.words(), holds::<{ Law::OneEvacuation as u8 }>),
            always(Law::Reason.words(), holds::<{ Law::Reason as u8 }>),
            always(Law::Refusal.words(), holds::<{ Law::Refusal as u8 }>),
            always(Law::Agreed.words(), holds::<{ Law::Agreed as u8 }>),
            always(Law::Withdrawal.words(), holds::<{ Law::Withdrawal as u8 }>),
            always(Law::Deletion.words(), holds::<{ Law::Deletion as u8 }>),
            always(Law::End.words(), holds::<{ Law::End as u8 }>),
            always(Law::Forward.words(), holds::<{ Law::Forward as u8 }>),
            always(Law::Invariants.words(), holds::<{ Law::Invariants as u8 }>),
            always(Law::Agreement.words(), holds::<{ Law::Agreement as u8 }>),
            always(Law::Ownership.words(), holds::<{ Law::Ownership as u8 }>),
            always(Law::Awake.words(), holds::<{ Law::Awake as u8 }>),
            always(Law::Told.words(), holds::<{ Law::Told as u8 }>),
            always(Law::Ends.words(), Self::ends),
        ]
    }
}

fn holds<const LAW: u8>(_: &Negotiation, state: &State) -> bool {
    !state.broken.contains(LAW)
}
