//! The API server: every request is one step, guarded by the protocol as the real one guards it.

use evacuation_api::{
    CANCELLATION_FINALIZER, DeadlineAction, Evacuation, EvacuationResponseSpec, EvacuationResponseStatus,
    EvacuationSpec, PodTarget, Requester, ResponderState,
};
use evacuation_protocol::{
    Actor, Editor, PodView, StatusError, answer, apply_requester_edit, begin, check_requester_edit,
    check_status_update, delete, fix_responders, is_finished,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    Law, Negotiation,
    config::{Entry, Say, at, requester_name, responder_name, user_name},
    history::{Asked, History, Said, Sleep},
    state::{Object, Pod, State, Version, Write},
};

/// The server's reply to a write of a status.
pub(crate) enum Reply {
    Written(Version),
    Conflict,
    NotFound,
    Refused,
}

impl Negotiation {
    /// Creates an Evacuation, with the entries that are there from the start.
    pub(crate) fn create(&self, state: &mut State) -> Option<()> {
        if state.pod == Pod::Gone || state.left.objects == 0 {
            return None;
        }
        let active = state.objects.iter().any(Object::is_active);
        if active && self.config.rules.one_active {
            return None;
        }
        state.left.objects -= 1;
        let firsts = self.config.users.iter().enumerate();
        let mut firsts = firsts.filter_map(|(user, u)| u.first.map(|entry| (user, entry)));
        let (user, entry) = firsts.next()?;
        let pod = PodTarget { name: "pod".to_owned(), uid: Some("pod-uid".to_owned()) };
        let spec = EvacuationSpec::new(pod, vec![entry.requester(user)]);
        let mut status = begin(&spec, &user_name(user), &[], at(state.now));
        if let PodView::Live(pod) = state.pod.view() {
            let registered = self.registered.clone().into();
            fix_responders(&mut status, &spec.requesters, &pod, &registered, false, at(state.now));
        }
        let mut evacuation = Evacuation::new("evacuation", spec);
        evacuation.metadata.namespace = Some("ns".to_owned());
        evacuation.metadata.uid = Some(format!("evacuation-{}", state.objects.len()));
        evacuation.metadata.generation = Some(1);
        evacuation.status = Some(status);
        let version = Version::new(evacuation);
        let mut history = History::new(self.config.responders.len());
        history.observe(&version.spec, self.config.users.len(), state.now);
        self.judge_creation(&version, &mut history, state.now, &mut state.broken);
        for controller in &mut state.controllers {
            controller.cache.push(None);
            controller.attempts.push(None);
            controller.questions.push(None);
        }
        let object = state.objects.len();
        state.objects.push(Object { stored: Some(version), history });
        for (user, entry) in firsts {
            self.edit(state, object, user, user, Some(entry))?;
        }
        state.broken.require(!active, Law::OneEvacuation);
        Some(())
    }

    /// A write of a status by a controller.
    pub(crate) fn write_status(&self, state: &mut State, write: &Write, forged: bool) -> Reply {
        let Some(stored) = state.stored(write.object) else {
            return Reply::NotFound;
        };
        let fresh = stored == write.base;
        if self.config.rules.resource_version && !fresh {
            return Reply::Conflict;
        }
        let proposed = write.proposed.status();
        let next = if self.config.rules.status_check {
            match check_status_update(&stored, proposed, at(state.now)) {
                Ok(next) => next,
                Err(errors) => {
                    let early = errors.iter().all(|e| matches!(e, StatusError::NotYet { .. }));
                    let timely = write.decided == state.now && !early;
                    state.broken.require(forged || !fresh || !timely, Law::Agreement);
                    return Reply::Refused;
                }
            }
        } else {
            proposed
        };
        let next = stored.with_status(next);
        state.broken.require(forged || !fresh || next != stored, Law::Agreement);
        // What became of the questions since then could not be known.
        let now = put_questions(state, write.object, &write.questions);
        self.store(state, write.object, &next, Actor::Controller);
        put_questions(state, write.object, &now);
        Reply::Written(next)
    }

    /// A responder says something.
    pub(crate) fn say(&self, state: &mut State, object: usize, responder: usize, say: Say) -> Option<()> {
        let spec = EvacuationResponseSpec {
            answer: Some(say.answer()),
            delay_seconds: say.delay_seconds(),
            ..EvacuationResponseSpec::default()
        };
        let granted = self.respond(state, object, responder, spec)?;
        let said = match say {
            Say::Accept => Said::Accepted,
            Say::Refuse => Said::Refused,
            Say::Delay(_) => Said::Delayed { until: state.now + granted.granted_seconds.unwrap_or_default() },
        };
        let heard = state.objects.get_mut(object)?.history.responders.get_mut(responder)?;
        let binds = heard.said != Some(Said::Accepted) || said == Said::Accepted;
        heard.said = Some(said);
        heard.question = Asked::default();
        state.broken.require(binds, Law::Forward);
        Some(())
    }

    /// A responder says that it knows of the cancellation.
    pub(crate) fn acknowledge(&self, state: &mut State, object: usize, responder: usize) -> Option<()> {
        let spec =
            EvacuationResponseSpec { acknowledge_cancellation: true, ..EvacuationResponseSpec::default() };
        self.respond(state, object, responder, spec).map(|_| ())
    }

    fn respond(
        &self,
        state: &mut State,
        object: usize,
        responder: usize,
        spec: EvacuationResponseSpec,
    ) -> Option<EvacuationResponseStatus> {
        let stored = state.stored(object)?;
        let name = responder_name(responder);
        let spec = EvacuationResponseSpec { responder: Some(name.clone()), ..spec };
        let mut seen = Evacuation::clone(&stored);
        let was = state_of(&mut seen, &name).map(|state| *state);
        if let Some(state) = state_of(&mut seen, &name).filter(|_| !self.config.rules.turn) {
            *state = ResponderState::Active;
        }
        let (status, reply) = answer(&seen, &spec, at(state.now)).ok()?;
        seen.status = Some(status);
        if let (Some(state), Some(was)) = (state_of(&mut seen, &name), was) {
            *state = was;
        }
        self.store(state, object, &Version::new(seen), Actor::Responder);
        Some(reply)
    }

    /// A user puts its entry, or removes it. The entry is that of `owner`.
    pub(crate) fn edit(
        &self,
        state: &mut State,
        object: usize,
        user: usize,
        owner: usize,
        entry: Option<Entry>,
    ) -> Option<()> {
        let stored = state.stored(object)?;
        let rules = &self.config.rules;
        let mut seen = Evacuation::clone(&stored);
        if let Some(status) = &mut seen.status {
            if !rules.fence {
                status.eviction = None;
            }
            if !rules.end {
                status.conditions.clear();
            }
        }
        let name = requester_name(owner);
        let mut spec = seen.spec.clone();
        put(&mut spec.requesters, &name, entry.map(|e| e.requester(owner)));
        let (who, may_override) = (user_name(user), !rules.ownership);
        let editor = Editor { user: &who, may_override, guarded: true };
        let edit = check_requester_edit(&seen, &spec, editor, at(state.now)).ok()?;
        if edit.is_empty() {
            return None;
        }
        let status = apply_requester_edit(&stored, &spec, &edit, &who, &[], at(state.now));
        let robs = user != owner && edit.removed.iter().any(|key| key.name == name);
        // Entries that gave up at a time that has passed want nothing any more, as if they had left.
        let gave_up = |r: &Requester| {
            let passed = r.deadline.is_some_and(|time| time.time() <= at(state.now));
            passed && r.at_deadline == Some(DeadlineAction::GiveUp)
        };
        let leaves = spec.requesters.iter().all(gave_up);
        let users = self.config.users.len();
        let now = state.now;
        let history = &mut state.objects.get_mut(object)?.history;
        history.observe(&stored.spec, users, now);
        let was_awake = history.sleep == Sleep::Awake;
        let mut next = Evacuation::clone(&stored);
        next.metadata.generation = next.metadata.generation.map(|g| g + 1);
        next.spec = spec;
        next.status = Some(status);
        state.broken.require(!robs, Law::Ownership);
        if let Some(object) = state.objects.get_mut(object) {
            object.history.withdrawn = leaves;
        }
        self.store(state, object, &Version::new(next), Actor::Server);
        let history = &mut state.objects.get_mut(object)?.history;
        if was_awake && history.sleep == Sleep::Asleep {
            history.sleep = Sleep::ByEdit;
        }
        Some(())
    }

    /// A user deletes an Evacuation, which must be its own.
    pub(crate) fn delete(&self, state: &mut State, object: usize, user: usize) -> Option<()> {
        let stored = state.stored(object)?;
        if stored.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let mut seen = Evacuation::clone(&stored);
        if let Some(status) = seen.status.as_mut().filter(|_| !self.config.rules.fence) {
            status.eviction = None;
        }
        let may_override = !self.config.rules.ownership;
        let deletion = delete(&seen, &user_name(user), may_override, false, at(state.now)).ok()?;
        let slot = state.objects.get_mut(object)?;
        slot.history.withdrawn |= !is_finished(&stored.status());
        let mut next = Evacuation::clone(&stored);
        next.status = Some(deletion.status);
        next.metadata.generation = next.metadata.generation.map(|g| g + 1);
        next.metadata.deletion_timestamp = Some(Time(evacuation_api::condition_time(at(state.now)).0));
        next.metadata.finalizers = Some(vec![CANCELLATION_FINALIZER.to_owned()]);
        self.store(state, object, &Version::new(next), Actor::Server);
        if !deletion.await_acknowledgements {
            state.objects.get_mut(object)?.stored = None;
        }
        Some(())
    }
}

/// Puts those in the place of what became of the questions to endpoints, which is returned.
fn put_questions(state: &mut State, object: usize, questions: &[Asked]) -> Vec<Asked> {
    let Some(object) = state.objects.get_mut(object) else { return Vec::new() };
    let before = object.history.questions();
    object.history.put_questions(questions);
    before
}

fn state_of<'a>(evacuation: &'a mut Evacuation, responder: &str) -> Option<&'a mut ResponderState> {
    let all = evacuation.status.as_mut()?.responders.as_mut()?;
    all.iter_mut().find(|r| r.name == responder).map(|r| &mut r.state)
}

fn put(requesters: &mut Vec<Requester>, name: &str, entry: Option<Requester>) {
    match (requesters.iter().position(|r| r.name == name), entry) {
        (Some(at), None) => {
            requesters.remove(at);
        }
        (Some(at), Some(entry)) => {
            if let Some(place) = requesters.get_mut(at) {
                *place = entry;
            }
        }
        (None, entry) => requesters.extend(entry),
    }
}

impl Object {
    /// Returns true when the object exists and has not ended.
    pub(crate) fn is_active(&self) -> bool {
        self.stored.as_ref().is_some_and(|v| !is_finished(&v.status()))
    }
}

impl State {
    /// What became of the questions to the endpoints of an Evacuation.
    pub(crate) fn questions(&self, object: usize) -> Vec<Asked> {
        self.objects.get(object).map(|object| object.history.questions()).unwrap_or_default()
    }

    /// The Evacuation as the server has it.
    pub(crate) fn stored(&self, object: usize) -> Option<Version> {
        self.objects.get(object)?.stored.clone()
    }
}
