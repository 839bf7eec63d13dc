//! Kubernetes' own EvictionRequests, carried out by this protocol.
//!
//! # Flow
//!
//! The controller passes everything that concerns one pod to [`plan_eviction`], and carries out the acts.
//! Each requester of an EvictionRequest becomes an entry of the pod's Evacuation. An Eviction object tells
//! the responders of that API when it is their turn. What they write there becomes an answer. The end is
//! written back.
//!
//! # Guarantees
//!
//! Refusals, deadlines and budgets stay those of the Evacuation. A status is only changed in steps that the
//! kube-apiserver takes: one responder is active at a time, in the order of that API. One that reports no
//! progress for 20 minutes gives way.

mod intents;
mod outcome;
mod tracking;
mod turns;
mod voice;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, Requester};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use machinery_validation::derived_name;

pub use intents::has_eviction_entries;
pub use outcome::invalid_request;
pub use voice::Voice;

use crate::{
    time::sooner,
    upstream::{
        End, Eviction, EvictionPodReference, EvictionRequest, EvictionSpec, EvictionTarget, MAX_INTENTIONS,
    },
};
use outcome::Outcome;

/// Owner of the entries that stand for EvictionRequests. It is no user: only holders of the verb `override`
/// change them.
pub const EVICTION_REQUESTS_OWNER: &str = "lifecycle.k8s.io/evictionrequests";

/// Everything that is known of one pod that EvictionRequests name. All objects are of that UID.
#[derive(Clone, Debug)]
pub struct EvictionWorld<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// UID of the pod.
    pub uid: &'a str,
    /// The pod, unless it is gone, replaced, or not known.
    pub pod: Option<&'a Pod>,
    /// True when the API says that there is no pod of that UID.
    pub is_gone: bool,
    /// The EvictionRequests of the pod.
    pub requests: Vec<&'a EvictionRequest>,
    /// The Evictions of the pod.
    pub evictions: Vec<&'a Eviction>,
    /// The Evacuations of the pod.
    pub evacuations: Vec<&'a Evacuation>,
    /// True when the controllers of Kubernetes itself act on that API.
    pub others_act: bool,
}

/// One act of the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum EvictionAct<'a> {
    /// Creates an Evacuation of the pod with that entry.
    Ask(Box<Requester>),
    /// Replaces the entries of [`EVICTION_REQUESTS_OWNER`] in an active Evacuation.
    Entries(&'a Evacuation, Vec<Requester>),
    /// Creates the Eviction.
    Create(Box<Eviction>),
    /// Replaces the metadata of the Eviction.
    Label(Box<Eviction>),
    /// Replaces the status of the Eviction.
    Track(Box<Eviction>),
    /// Replaces the status of an EvictionRequest.
    Report(Box<EvictionRequest>),
    /// Answers in the name of a responder.
    Speak(&'a Evacuation, Voice),
}

/// The acts for one pod, and the time of the next look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionPlan<'a> {
    /// The acts.
    pub acts: Vec<EvictionAct<'a>>,
    /// The next time at which the plan changes even if no object does.
    pub wake_at: Option<DateTime<Utc>>,
    /// True when a request names a pod that is not known: it is to be read from the API.
    pub reads_pod: bool,
}

/// Decides what to do for one pod that EvictionRequests, or responders of that API, concern.
pub fn plan_eviction<'a>(world: &EvictionWorld<'a>, now: DateTime<Utc>) -> EvictionPlan<'a> {
    let mut plan = EvictionPlan::default();
    let evacuation = world.current();
    let active = evacuation.filter(|evacuation| intents::is_open(evacuation));
    if world.others_act || world.is_foreign() {
        // Without an entry nothing of this side evicts the pod a second time.
        plan.acts.extend(active.and_then(|active| intents::entries(active, Vec::new())));
        plan.acts.extend(active.into_iter().flat_map(|active| world.voices(active, None, now)));
        return plan;
    }
    let wanted = world.wanted();
    let open = if active.is_some() { Vec::new() } else { world.unanswered(&wanted, evacuation) };
    let pause =
        evacuation.filter(|_| active.is_none()).and_then(intents::pause_until).filter(|end| now < *end);
    let entry = |request: &&EvictionRequest| intents::entry(request);
    if let Some(active) = active {
        plan.acts.extend(intents::entries(active, wanted.iter().map(entry).collect()));
    } else if let Some(first) = open.first() {
        match pause {
            Some(end) => plan.wake_at = Some(end),
            None => plan.acts.push(EvictionAct::Ask(Box::new(entry(first)))),
        }
    }
    // The next Evacuation goes on with an Eviction that is open.
    match evacuation {
        _ if !open.is_empty() => {}
        Some(evacuation) if world.is_tracked(evacuation) => {
            let (acts, wake_at) = world.track(evacuation, now);
            plan.acts.extend(acts);
            plan.wake_at = sooner(plan.wake_at, wake_at);
        }
        Some(_) => {}
        None => plan.acts.extend(world.close_orphan(&wanted, now)),
    }
    let outcome = Outcome::of(world, evacuation);
    plan.reads_pod = outcome == Outcome::Unknown && !world.requests.iter().all(|r| outcome::has_answer(r));
    // What the last Evacuation came to is no answer to a later request.
    let later = |request: &EvictionRequest| open.iter().any(|open| std::ptr::eq(*open, request));
    let answered = world.requests.iter().filter(|request| !later(request));
    plan.acts.extend(answered.filter_map(|request| outcome.report(request, now)));
    plan
}

impl<'a> EvictionWorld<'a> {
    /// Returns the active Evacuation, or else the youngest.
    fn current(&self) -> Option<&'a Evacuation> {
        let age = |evacuation: &&'a Evacuation| {
            let created = evacuation.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (intents::is_open(evacuation), created, evacuation.metadata.name.clone())
        };
        self.evacuations.iter().copied().max_by_key(age)
    }

    /// Returns the requests that want the pod to go and have no end yet, oldest first.
    fn wanted(&self) -> Vec<&'a EvictionRequest> {
        let wanted =
            |request: &&EvictionRequest| intents::is_wanted(request) && !outcome::has_answer(request);
        let mut all: Vec<_> = self.requests.iter().copied().filter(wanted).collect();
        all.sort_by_key(|request| {
            let metadata = &request.metadata;
            (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.name.clone())
        });
        all
    }

    /// Returns the requests that a new Evacuation is to answer.
    fn unanswered(
        &self,
        wanted: &[&'a EvictionRequest],
        last: Option<&Evacuation>,
    ) -> Vec<&'a EvictionRequest> {
        let leaves = |pod: &Pod| pod.metadata.deletion_timestamp.is_some() || !outcome::is_evictable(pod);
        if self.pod.is_none_or(leaves) {
            return Vec::new();
        }
        let answers = last.is_some_and(intents::answers);
        wanted.iter().copied().filter(|request| !intents::is_answered(request, answers)).collect()
    }

    /// Returns true when another controller than this one tracks the pod. Of two Evictions the older counts.
    fn is_foreign(&self) -> bool {
        let open = || self.evictions.iter().copied().filter(|eviction| tracking::is_open(eviction));
        let age = |eviction: &Eviction| eviction.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let own = open().filter(|eviction| tracking::is_own(eviction)).map(age).min();
        let foreign = open().filter(|eviction| !tracking::is_own(eviction)).map(age).min();
        open().any(tracking::is_of_upstream)
            || foreign.is_some_and(|foreign| own.is_none_or(|own| foreign < own))
    }

    /// Returns true when an Eviction is to show an Evacuation: requests ask for it, or responders of that API
    /// take part.
    fn is_tracked(&self, evacuation: &Evacuation) -> bool {
        let known = self.eviction_of(evacuation).is_some();
        let named = || self.pod.is_some_and(|pod| tracking::asks_responders_of(pod, evacuation));
        known || has_eviction_entries(evacuation) || (intents::is_open(evacuation) && named())
    }

    /// Returns the Eviction of an Evacuation: an open one of this controller, which an earlier Evacuation may
    /// have left, or else its own when both have ended.
    fn eviction_of(&self, evacuation: &Evacuation) -> Option<&'a Eviction> {
        let own = || self.evictions.iter().copied().filter(|eviction| tracking::is_own(eviction));
        let open = own().find(|eviction| tracking::is_open(eviction));
        let ended = || own().find(|eviction| tracking::belongs(eviction, evacuation));
        open.or_else(|| if intents::is_open(evacuation) { None } else { ended() })
    }

    /// Returns the answers for responders of that API.
    fn voices(
        &self,
        evacuation: &'a Evacuation,
        eviction: Option<&Eviction>,
        now: DateTime<Utc>,
    ) -> Vec<EvictionAct<'a>> {
        let voices = voice::voices(self.pod, eviction, evacuation, now);
        voices.map(|voice| EvictionAct::Speak(evacuation, voice)).collect()
    }

    /// Returns the acts that keep the Eviction of an Evacuation, and those of its responders.
    fn track(
        &self,
        evacuation: &'a Evacuation,
        now: DateTime<Utc>,
    ) -> (Vec<EvictionAct<'a>>, Option<DateTime<Utc>>) {
        let eviction = self.eviction_of(evacuation);
        let mut acts = self.voices(evacuation, eviction, now);
        let Some(eviction) = eviction else {
            let create = intents::is_open(evacuation).then(|| self.new_eviction(evacuation));
            acts.extend(create.map(|new| EvictionAct::Create(Box::new(new))));
            return (acts, None);
        };
        let metadata = self.metadata(evacuation, eviction.metadata.clone(), eviction);
        if metadata != eviction.metadata {
            acts.push(EvictionAct::Label(Box::new(Eviction { metadata, ..eviction.clone() })));
            return (acts, None);
        }
        let next = tracking::next(self, eviction, evacuation, now);
        if Some(&next.status) != eviction.status.as_ref() {
            acts.push(EvictionAct::Track(Box::new(Eviction {
                status: Some(next.status),
                ..eviction.clone()
            })));
        }
        (acts, next.wake_at)
    }

    /// Returns the act that ends an Eviction of this controller whose Evacuation is gone.
    fn close_orphan(&self, wanted: &[&EvictionRequest], now: DateTime<Utc>) -> Option<EvictionAct<'a>> {
        let orphan = self.evictions.iter().find(|e| tracking::is_own(e) && tracking::is_open(e))?;
        let (end, message) = match Outcome::of(self, None) {
            Outcome::Known(end @ (End::PodDeleted | End::PodTerminal), message) => (end, message),
            Outcome::Unknown => return None,
            _ if wanted.is_empty() => (End::Canceled, "no request wants it".to_owned()),
            _ => (End::LeftAlone, "its evacuation was deleted".to_owned()),
        };
        let status = tracking::ended(orphan, end, &message, now);
        Some(EvictionAct::Track(Box::new(Eviction { status: Some(status), ..(*orphan).clone() })))
    }

    fn new_eviction(&self, evacuation: &Evacuation) -> Eviction {
        let pod = EvictionPodReference { name: self.name.to_owned(), uid: self.uid.to_owned() };
        let mut eviction = Eviction {
            spec: EvictionSpec { target: EvictionTarget { pod: Some(pod) } },
            ..Eviction::default()
        };
        let metadata = ObjectMeta {
            // Another object can have the name of the Evacuation.
            generate_name: evacuation.metadata.name.as_ref().map(|name| derived_name(name, "-")),
            namespace: Some(self.namespace.to_owned()),
            ..ObjectMeta::default()
        };
        eviction.metadata = self.metadata(evacuation, metadata, &eviction);
        eviction
    }

    /// Returns the metadata of an Eviction with its labels and owners.
    fn metadata(&self, evacuation: &Evacuation, before: ObjectMeta, eviction: &Eviction) -> ObjectMeta {
        let owner = |api_version: &str, kind: &str, metadata: &ObjectMeta| OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let mut owners = before.owner_references.clone().unwrap_or_default();
        let wanted =
            std::iter::once(owner(&evacuation_api::api_version(), Evacuation::KIND, &evacuation.metadata))
                .chain(
                    self.requests.iter().filter(|r| r.metadata.deletion_timestamp.is_none()).map(|request| {
                        owner(tracking::API_VERSION, tracking::REQUEST_KIND, &request.metadata)
                    }),
                );
        for owner in wanted {
            if owners.len() < MAX_INTENTIONS && !owners.iter().any(|known| known.uid == owner.uid) {
                owners.push(owner);
            }
        }
        let mut labels: BTreeMap<String, String> = before.labels.clone().unwrap_or_default();
        labels.retain(|_, value| !tracking::is_role(value));
        labels.extend(tracking::roles(self, eviction, evacuation));
        ObjectMeta { labels: Some(labels), owner_references: Some(owners), ..before }
    }
}
