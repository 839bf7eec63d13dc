//! The responders of an Eviction: whose turn it is, and for how long.
//!
//! The kube-apiserver takes one step at a time: the active responder ends and the next one begins in one
//! write, in the order of the list, and a responder that says nothing stays active for 20 minutes.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, Evacuation, ResponderState};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    status::{Phase, cut, phase},
    time::after,
    upstream::{
        EVICTOR, EVICTOR_PRIORITY, End, EvictionStatus, HEARTBEAT_PAUSE_SECONDS, HEARTBEAT_SECONDS,
        MAX_MESSAGE_BYTES, Progress, TargetResponder, eviction_responders, of_wire, order_of_names, state,
        wire,
    },
};

/// Seconds after the end of the pod in which the active responder can still report that it is done.
const LAST_WORD_SECONDS: i64 = 5;
/// Seconds after which the evictor reports that it is still there.
const EVICTOR_HEARTBEAT_SECONDS: i64 = 180;

/// Names the responders when the first of them is asked, and passes the turn on.
pub(super) fn advance(
    status: &mut EvictionStatus,
    pod: Option<&Pod>,
    evacuation: &Evacuation,
    now: DateTime<Utc>,
) {
    if status.target_responders.as_ref().is_none_or(Vec::is_empty) {
        let first = pod.map(|pod| begin(pod, evacuation)).unwrap_or_default();
        if !first.is_empty() {
            status.responders = Some(first.iter().map(|responder| said_nothing(responder, now)).collect());
            status.target_responders = Some(first);
        }
        return;
    }
    let (Some(targets), Some(progress)) = (&mut status.target_responders, &mut status.responders) else {
        return;
    };
    let place = targets.iter().position(|responder| responder.state == state::ACTIVE);
    let Some((_, [current, later @ ..])) = place.and_then(|place| targets.split_at_mut_checked(place)) else {
        return;
    };
    let Some(said) = progress.iter_mut().find(|said| said.name == current.name) else { return };
    if said.completion_time.is_none()
        && state_of(evacuation, &current.name) == Some(ResponderState::Completed)
    {
        // It answered by this API.
        said.completion_time = Some(wire(now));
        return;
    }
    let done = said.completion_time.is_some();
    let late = deadline(said).is_some_and(|deadline| deadline <= now);
    let Some(next) = later.first_mut().filter(|next| is_asked(evacuation, &next.name)) else { return };
    if done || late {
        set(current, if done { state::COMPLETED } else { state::INTERRUPTED });
        set(next, state::ACTIVE);
        if let Some(next) = progress.iter_mut().find(|said| said.name == next.name) {
            next.start_time = Some(wire(now));
        }
    }
}

fn set(responder: &mut TargetResponder, state: &str) {
    state.clone_into(&mut responder.state);
}

/// Returns the responders in their order, the first of them active; none while the first is not asked yet.
fn begin(pod: &Pod, evacuation: &Evacuation) -> Vec<TargetResponder> {
    let ahead = |name: &str| {
        matches!(state_of(evacuation, name), Some(ResponderState::Inactive | ResponderState::Active))
    };
    let target =
        |name: String, priority: i32| TargetResponder { name, priority, state: state::INACTIVE.to_owned() };
    let named = eviction_responders(pod).filter(|entry| ahead(&entry.name));
    let mut all: Vec<TargetResponder> =
        named.map(|entry| target(entry.name.clone(), entry.priority())).collect();
    all.push(target(EVICTOR.to_owned(), EVICTOR_PRIORITY));
    all.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| order_of_names(&a.name, &b.name)));
    match all.first_mut().filter(|first| is_asked(evacuation, &first.name)) {
        Some(first) => set(first, state::ACTIVE),
        None => all.clear(),
    }
    all
}

/// Returns the item of a responder that has said nothing. An active one begins now.
fn said_nothing(responder: &TargetResponder, now: DateTime<Utc>) -> Progress {
    let start_time = (responder.state == state::ACTIVE).then(|| wire(now));
    Progress { name: responder.name.clone(), start_time, ..Progress::default() }
}

/// Returns true when it is a responder's turn in the Evacuation, or was.
fn is_asked(evacuation: &Evacuation, name: &str) -> bool {
    if name == EVICTOR {
        return phase(evacuation) == Phase::Evicting;
    }
    state_of(evacuation, name).is_none_or(|state| state != ResponderState::Inactive)
}

/// Returns the state of a responder in the Evacuation.
pub(super) fn state_of(evacuation: &Evacuation, name: &str) -> Option<ResponderState> {
    let responders = evacuation.status.as_ref()?.responders.as_ref()?;
    responders.iter().find(|responder| responder.name == name).map(|responder| responder.state)
}

/// Returns the time at which a responder last said something, or else that at which it began.
pub(super) fn last_heard(said: &Progress) -> Option<DateTime<Utc>> {
    of_wire(said.heartbeat_time.as_ref()).or_else(|| of_wire(said.start_time.as_ref()))
}

/// Returns the time by which an active responder must report progress.
pub(super) fn deadline(said: &Progress) -> Option<DateTime<Utc>> {
    last_heard(said).map(|last| after(last, HEARTBEAT_SECONDS))
}

/// Returns what the active responder has said.
pub(super) fn active(status: &EvictionStatus) -> Option<&Progress> {
    let targets = status.target_responders.as_ref()?;
    let name = &targets.iter().find(|responder| responder.state == state::ACTIVE)?.name;
    status.responders.as_ref()?.iter().find(|said| said.name == *name)
}

/// Returns the time at which the active responder gives way, unless it is the evictor.
pub(super) fn expiry(status: &EvictionStatus) -> Option<DateTime<Utc>> {
    active(status).filter(|said| said.name != EVICTOR && said.completion_time.is_none()).and_then(deadline)
}

/// Lets the evictor report what holds it back. Returns the time of its next report.
pub(super) fn report_of_evictor(
    status: &mut EvictionStatus,
    evacuation: &Evacuation,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    active(status).filter(|said| said.name == EVICTOR)?;
    let said = status.responders.iter_mut().flatten().find(|said| said.name == EVICTOR)?;
    let blocked = evacuation.status.as_ref().and_then(|status| status.true_condition(ConditionType::Blocked));
    let message = blocked.map_or("the eviction API is asked", |blocked| blocked.message.as_str());
    let message = Some(cut(message, MAX_MESSAGE_BYTES));
    let pause = if said.message == message { EVICTOR_HEARTBEAT_SECONDS } else { HEARTBEAT_PAUSE_SECONDS };
    let due = last_heard(said).map(|last| after(last, pause));
    if said.message.is_none() || due.is_none_or(|due| due <= now) {
        said.message = message;
        said.heartbeat_time = Some(wire(now));
        return Some(after(now, EVICTOR_HEARTBEAT_SECONDS));
    }
    due
}

/// Ends the active responder at once. One that has not said that it is done is Canceled or Interrupted.
pub(super) fn close_now(status: &mut EvictionStatus, end: End) {
    let active = active(status).map(|said| (said.name.clone(), said.completion_time.is_some()));
    let Some((name, done)) = active else { return };
    let state = match (done, end) {
        (true, _) => state::COMPLETED,
        (false, End::Canceled) => state::CANCELED,
        (false, _) => state::INTERRUPTED,
    };
    let mut targets = status.target_responders.iter_mut().flatten();
    if let Some(responder) = targets.find(|responder| responder.name == name) {
        set(responder, state);
    }
}

/// The step that comes before the end is written.
pub(super) enum Closing {
    /// Nothing: the conditions can be written now.
    Done,
    /// This step, then another look.
    Again,
    /// Nothing until then: the active responder can still report that it is done.
    At(DateTime<Utc>),
}

/// Ends the active responder.
pub(super) fn close(
    status: &mut EvictionStatus,
    evacuation: &Evacuation,
    end: End,
    now: DateTime<Utc>,
) -> Closing {
    let mut targets = status.target_responders.iter_mut().flatten();
    let Some(responder) = targets.find(|responder| responder.state == state::ACTIVE) else {
        return Closing::Done;
    };
    let mut progress = status.responders.iter_mut().flatten();
    let Some(said) = progress.find(|said| said.name == responder.name) else { return Closing::Done };
    let gone = matches!(end, End::PodDeleted | End::PodTerminal);
    if said.completion_time.is_some() {
        set(responder, state::COMPLETED);
    } else if end == End::Canceled {
        set(responder, state::CANCELED);
    } else if gone && responder.name == EVICTOR {
        // A responder is Completed only after it has said so, in a step of its own.
        said.completion_time = Some(wire(now));
        said.message = Some("the pod is gone".to_owned());
        return Closing::Again;
    } else {
        let ended = evacuation.status.as_ref().and_then(|status| status.finish_time);
        let last_word = ended.map_or(now, |ended| after(ended.0, LAST_WORD_SECONDS));
        if gone && now < last_word {
            return Closing::At(last_word);
        }
        set(responder, state::INTERRUPTED);
    }
    Closing::Done
}
