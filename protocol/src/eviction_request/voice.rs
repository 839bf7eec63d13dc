//! Answers in the name of responders that use Kubernetes' own API.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, Evacuation, EvacuationResponseSpec, ResponderState, ResponderStatus};
use k8s_openapi::api::core::v1::Pod;

use super::turns::{deadline, last_heard};
use crate::{
    status::{cut, is_finished},
    time::after,
    upstream::{Eviction, HEARTBEAT_SECONDS, Progress, eviction_responders, state},
};

/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Pause between two answers to a heartbeat that is ahead of this clock, in seconds.
const AHEAD_PAUSE_SECONDS: i64 = 10;

/// An answer in the name of a responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voice {
    /// Name of the responder.
    pub responder: String,
    /// The body of the answer.
    pub answer: Box<EvacuationResponseSpec>,
}

/// Returns the answers for the responders of that API that were not given yet: those that follow from the
/// Eviction, and time for those that nobody could tell yet that it is their turn.
pub(super) fn voices(
    pod: Option<&Pod>,
    eviction: Option<&Eviction>,
    evacuation: &Evacuation,
    now: DateTime<Utc>,
) -> impl Iterator<Item = Voice> {
    let named: BTreeSet<String> =
        pod.into_iter().flat_map(eviction_responders).map(|entry| entry.name).collect();
    let asked = evacuation.status.iter().flat_map(|status| status.responders.iter().flatten());
    asked.filter_map(move |responder| {
        let seen = eviction.and_then(|eviction| Seen::of(eviction, &responder.name));
        if seen.is_none() && !named.contains(&responder.name) {
            return None;
        }
        let answer = answer(seen.as_ref(), evacuation, responder, now)?;
        Some(Voice {
            responder: responder.name.clone(),
            answer: Box::new(EvacuationResponseSpec {
                responder: Some(responder.name.clone()),
                evacuation_uid: evacuation.metadata.uid.clone(),
                pod_uid: evacuation.spec.target.pod.uid.clone(),
                ..answer
            }),
        })
    })
}

/// A responder's part of an Eviction.
struct Seen<'e> {
    is_active: bool,
    said: &'e Progress,
}

impl<'e> Seen<'e> {
    fn of(eviction: &'e Eviction, name: &str) -> Option<Self> {
        let status = eviction.status.as_ref()?;
        let target = status.target_responders.iter().flatten().find(|target| target.name == name)?;
        let said = status.responders.iter().flatten().find(|said| said.name == name)?;
        Some(Self { is_active: target.state == state::ACTIVE, said })
    }
}

fn answer(
    seen: Option<&Seen<'_>>,
    evacuation: &Evacuation,
    responder: &ResponderStatus,
    now: DateTime<Utc>,
) -> Option<EvacuationResponseSpec> {
    if responder.state == ResponderState::Canceled {
        let told = seen.is_some_and(|seen| !seen.is_active) && must_acknowledge(responder);
        return told.then(|| EvacuationResponseSpec {
            acknowledge_cancellation: true,
            ..EvacuationResponseSpec::default()
        });
    }
    let finished = evacuation.status.as_ref().is_some_and(is_finished);
    if responder.state != ResponderState::Active || finished || responder.answer == Some(Answer::Accept) {
        return None;
    }
    let message = seen.and_then(|seen| seen.said.message.as_deref()).map(printable);
    let message = message.filter(|message| !message.is_empty());
    if seen.is_some_and(|seen| seen.said.completion_time.is_some()) {
        return Some(EvacuationResponseSpec {
            answer: Some(Answer::Accept),
            reason: Some("Completed".to_owned()),
            message,
            ..EvacuationResponseSpec::default()
        });
    }
    if responder.answer == Some(Answer::Refuse) {
        return None;
    }
    let (told, until) = if let Some(seen) = seen.filter(|seen| seen.is_active) {
        (last_heard(seen.said)?, deadline(seen.said)?)
    } else {
        // Nobody could tell it yet, or the one before it has not given way in that API.
        let since = responder.active_time?.0;
        (since, after(since, HEARTBEAT_SECONDS))
    };
    // A heartbeat has whole seconds: one right after the answer can differ by its message alone.
    let is_old = responder.answer_time.is_some_and(|given| {
        // The API takes heartbeats that are some seconds ahead.
        let ahead = now < told && now < after(given.0, AHEAD_PAUSE_SECONDS);
        told <= given.0 || ahead
    });
    let is_known = message.is_none() || message == responder.message;
    if (is_old && is_known) || until <= now {
        return None;
    }
    Some(EvacuationResponseSpec {
        answer: Some(Answer::Delay),
        // Rounded up: the deadline of that API comes first.
        delay_seconds: Some((until - now).num_milliseconds().saturating_add(999) / 1000),
        reason: Some("InProgress".to_owned()),
        message,
        ..EvacuationResponseSpec::default()
    })
}

/// Returns true for a responder that was asked and has not acknowledged that the Evacuation was canceled.
fn must_acknowledge(responder: &ResponderStatus) -> bool {
    responder.active_time.is_some() && !responder.cancellation_acknowledged
}

/// Returns a text that the API takes as a message: without control characters, and cut.
fn printable(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    cut(&plain, MAX_MESSAGE)
}
