//! The Eviction object: what it shows of an Evacuation, in the steps that the kube-apiserver takes.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;

pub(super) use crate::upstream::{API_VERSION, REQUEST_KIND};

use super::{
    EVICTION_REQUESTS_OWNER, EvictionWorld, intents,
    outcome::Outcome,
    turns::{Closing, advance, close, close_now, expiry, report_of_evictor, state_of},
};
use crate::{
    status::phase,
    time::sooner,
    upstream::{
        EVICTOR, End, Eviction, EvictionStatus, FIELD_MANAGER, Intention, MAX_INTENTIONS,
        eviction_responders, has_ended, intent, is_prefixed_key, role,
    },
};

/// The next status of an Eviction, and the next time at which it changes by itself.
pub(super) struct Next {
    pub(super) status: EvictionStatus,
    pub(super) wake_at: Option<DateTime<Utc>>,
}

/// Returns true when an Eviction shows that Evacuation.
pub(super) fn belongs(eviction: &Eviction, evacuation: &Evacuation) -> bool {
    let owners = eviction.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == evacuation.metadata.uid.as_ref())
}

/// Returns true for an Eviction that this controller made, also when its Evacuation is gone.
///
/// A policy on the kube-apiserver leaves the owners of Evictions to controllers.
pub(super) fn is_own(eviction: &Eviction) -> bool {
    let owners = eviction.metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.kind == Evacuation::KIND && owner.api_version == evacuation_api::api_version())
}

/// Returns true while an Eviction has no end.
pub(super) fn is_open(eviction: &Eviction) -> bool {
    let status = eviction.status.as_ref();
    eviction.metadata.deletion_timestamp.is_none()
        && !status.is_some_and(|status| has_ended(status.conditions.as_ref()))
}

/// Returns true when a controller of Kubernetes itself wrote to an open Eviction.
///
/// A policy on the kube-apiserver leaves that field manager to controllers.
pub(super) fn is_of_upstream(eviction: &Eviction) -> bool {
    let fields = eviction.metadata.managed_fields.iter().flatten();
    is_open(eviction) && fields.into_iter().any(|known| known.manager.as_deref() == Some(FIELD_MANAGER))
}

/// Returns true when responders that the pod's field names take part in an Evacuation.
pub(super) fn asks_responders_of(pod: &Pod, evacuation: &Evacuation) -> bool {
    eviction_responders(pod).any(|entry| state_of(evacuation, &entry.name).is_some())
}

/// Returns true for the value of a label that gives a role.
pub(super) fn is_role(value: &str) -> bool {
    [role::REQUESTER, role::RESPONDER, role::BOTH].contains(&value)
}

/// Returns the labels that name the requesters and responders of an Eviction.
pub(super) fn roles(
    world: &EvictionWorld<'_>,
    eviction: &Eviction,
    evacuation: &Evacuation,
) -> BTreeMap<String, String> {
    let known = eviction.status.as_ref().and_then(|status| status.target_responders.as_ref());
    let mut responders: BTreeSet<String> = match (known, world.pod) {
        (Some(known), _) => known.iter().map(|responder| responder.name.clone()).collect(),
        (None, Some(pod)) => eviction_responders(pod).map(|entry| entry.name).collect(),
        (None, None) => BTreeSet::new(),
    };
    responders.insert(EVICTOR.to_owned());
    let mut roles: BTreeMap<String, String> =
        responders.iter().map(|name| (name.clone(), role::RESPONDER.to_owned())).collect();
    let current = world.requests.iter().filter(|request| request.metadata.deletion_timestamp.is_none());
    let named = current.map(|request| request.spec.requester.clone());
    for name in named.chain(others(evacuation)).take(MAX_INTENTIONS) {
        let both = responders.contains(&name);
        roles.insert(name, if both { role::BOTH } else { role::REQUESTER }.to_owned());
    }
    roles
}

/// Returns the names of the requesters that ask by an Evacuation of their own.
fn others(evacuation: &Evacuation) -> impl Iterator<Item = String> {
    let entries = evacuation.spec.requesters.iter().filter(|entry| entry.owner != EVICTION_REQUESTS_OWNER);
    entries.map(|entry| entry.name.clone()).filter(|name| is_prefixed_key(name))
}

/// Returns the next status of an Eviction. It is one step from the last one.
pub(super) fn next(
    world: &EvictionWorld<'_>,
    eviction: &Eviction,
    evacuation: &Evacuation,
    now: DateTime<Utc>,
) -> Next {
    let mut status = eviction.status.clone().unwrap_or_default();
    let mut wake_at = None;
    if has_ended(status.conditions.as_ref()) {
        return Next { status, wake_at };
    }
    status.observed_generation = eviction.metadata.generation;
    let requesters = intentions(world, &status, evacuation);
    // The API drops an empty list.
    status.requesters = (!requesters.is_empty()).then_some(requesters);
    let wanted = !phase(evacuation).is_final() || !world.wanted().is_empty();
    let outcome = Outcome::of_evacuation(evacuation, wanted);
    let Outcome::Known(end, message) = outcome else { return Next { status, wake_at } };
    if end == End::Awaiting {
        advance(&mut status, world.pod, evacuation, now);
        wake_at = sooner(wake_at, report_of_evictor(&mut status, evacuation, now));
        wake_at = sooner(wake_at, expiry(&status).filter(|end| now < *end));
        end.write(&mut status.conditions, &message, eviction.metadata.generation, now);
        return Next { status, wake_at };
    }
    match close(&mut status, evacuation, end, now) {
        Closing::Done => end.write(&mut status.conditions, &message, eviction.metadata.generation, now),
        Closing::Again => {}
        Closing::At(time) => wake_at = Some(time),
    }
    Next { status, wake_at }
}

/// Returns the status of an Eviction that ends without its Evacuation.
pub(super) fn ended(eviction: &Eviction, end: End, message: &str, now: DateTime<Utc>) -> EvictionStatus {
    let mut status = eviction.status.clone().unwrap_or_default();
    status.observed_generation = eviction.metadata.generation;
    close_now(&mut status, end);
    end.write(&mut status.conditions, message, eviction.metadata.generation, now);
    status
}

/// Returns the requesters with their intents: the current ones, then those that left.
fn intentions(world: &EvictionWorld<'_>, before: &EvictionStatus, evacuation: &Evacuation) -> Vec<Intention> {
    let wanted: BTreeSet<&str> =
        world.wanted().iter().map(|request| request.spec.requester.as_str()).collect();
    let mut all: Vec<Intention> = Vec::new();
    let mut add = |name: &str, intent: &str| {
        if !all.iter().any(|known| known.name == name) {
            all.push(Intention { name: name.to_owned(), intent: intent.to_owned() });
        }
    };
    for name in &wanted {
        add(name, intent::EVICTION);
    }
    if intents::is_open(evacuation) {
        others(evacuation).for_each(|name| add(&name, intent::EVICTION));
    }
    for request in &world.requests {
        add(&request.spec.requester, intent::WITHDRAWN);
    }
    for known in before.requesters.iter().flatten() {
        add(&known.name, intent::WITHDRAWN);
    }
    all.truncate(MAX_INTENTIONS);
    // The order on the wire stays, so that the object does not change by it.
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
