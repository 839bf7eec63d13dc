//! The wishes of EvictionRequests, and the entries that stand for them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, MAX_REQUESTERS_PER_OWNER, Requester};

use super::{
    EVICTION_REQUESTS_OWNER, EvictionAct,
    outcome::{has_answer, is_observed},
};
use crate::{
    status::is_finished,
    time::after,
    upstream::{EvictionRequest, intent},
};

/// Pause between two Evacuations of a pod for requests, in seconds: a requester that changes its mind again
/// and again makes few objects.
const PAUSE_SECONDS: i64 = 10;

/// Returns true while an Evacuation neither has ended nor was deleted.
pub(super) fn is_open(evacuation: &Evacuation) -> bool {
    !evacuation.status.as_ref().is_some_and(is_finished) && evacuation.metadata.deletion_timestamp.is_none()
}

/// Returns true when a request wants the pod to go. Its deletion withdraws it.
pub(super) fn is_wanted(request: &EvictionRequest) -> bool {
    request.spec.intent == intent::EVICTION && request.metadata.deletion_timestamp.is_none()
}

/// Returns true when a request has its end, or was seen before the last Evacuation ended, which `answers`
/// for requests.
///
/// A request that was answered is not repeated: its owner changes it, or makes another one.
pub(super) fn is_answered(request: &EvictionRequest, answers: bool) -> bool {
    has_answer(request) || (answers && is_observed(request))
}

/// Returns true when an Evacuation has entries of EvictionRequests, which nobody withdrew.
pub(super) fn answers(evacuation: &Evacuation) -> bool {
    evacuation.spec.requesters.iter().any(|entry| entry.owner == EVICTION_REQUESTS_OWNER)
}

/// Returns the time before which an ended Evacuation of requests is not followed by another one.
pub(super) fn pause_until(last: &Evacuation) -> Option<DateTime<Utc>> {
    let ended = last.status.as_ref()?.finish_time?;
    has_eviction_entries(last).then(|| after(ended.0, PAUSE_SECONDS))
}

/// Returns the entry of a request.
pub(super) fn entry(request: &EvictionRequest) -> Requester {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    Requester {
        owner: EVICTION_REQUESTS_OWNER.to_owned(),
        reason: Some("EvictionRequest".to_owned()),
        message: Some(format!("evictionrequest {name} asks for it")),
        ..Requester::named(&request.spec.requester)
    }
}

/// Returns true when an Evacuation has, or had, entries of EvictionRequests.
pub fn has_eviction_entries(evacuation: &Evacuation) -> bool {
    let recorded = evacuation.status.iter().flat_map(|status| &status.requesters);
    answers(evacuation) || recorded.into_iter().any(|known| known.owner == EVICTION_REQUESTS_OWNER)
}

/// Returns the act that makes these the entries of EvictionRequests in an Evacuation, if they are not.
///
/// Entries of one name are one. The first count, as many as one owner may have: all of them ask for the same.
pub(super) fn entries(evacuation: &Evacuation, wanted: Vec<Requester>) -> Option<EvictionAct<'_>> {
    let mut names = BTreeSet::new();
    let known = |name: &str| {
        evacuation.spec.requesters.iter().find(|e| e.owner == EVICTION_REQUESTS_OWNER && e.name == name)
    };
    let mut next = Vec::new();
    for entry in wanted {
        if next.len() < MAX_REQUESTERS_PER_OWNER && names.insert(entry.name.clone()) {
            next.push(known(&entry.name).cloned().unwrap_or(entry));
        }
    }
    let before = evacuation.spec.requesters.iter().filter(|e| e.owner == EVICTION_REQUESTS_OWNER);
    let before: BTreeSet<&str> = before.map(|entry| entry.name.as_str()).collect();
    let after: BTreeSet<&str> = next.iter().map(|entry| entry.name.as_str()).collect();
    (before != after).then_some(EvictionAct::Entries(evacuation, next))
}
