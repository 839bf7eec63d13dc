//! Objects for the tests of this crate, at times counted in seconds.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Evacuation, EvacuationSpec, PodTarget, Requester, ResponderEntry, ResponderState, ResponderStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{Attempt, LivePod, PodPhase, PodView, Registered, World, fix_responders};

/// Returns the time so many seconds after a fixed midnight.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

/// Alice's entry of that name that leaves the rest to the defaults.
pub(crate) fn requester(name: &str) -> Requester {
    requester_of("alice", name)
}

/// Returns the entry of another owner.
pub(crate) fn requester_of(owner: &str, name: &str) -> Requester {
    Requester { owner: owner.to_owned(), ..Requester::named(name) }
}

/// An Evacuation of pod `db-0`, UID `pod-1`, with the requester `a.b/r`, by user `alice`, created at 0, for
/// which no responder is registered.
pub(crate) fn evacuation() -> Evacuation {
    evacuation_for(vec![requester("a.b/r")])
}

/// Returns the same with other entries.
pub(crate) fn evacuation_for(requesters: Vec<Requester>) -> Evacuation {
    created(requesters, &RUNNING, &Registered::default())
}

/// An Evacuation that asks `self`, with other entries.
pub(crate) fn evacuation_of_app(requesters: Vec<Requester>) -> Evacuation {
    created(requesters, &RUNNING, &vec![ResponderEntry::named("self")].into())
}

/// A pod that runs.
pub(crate) const RUNNING: LivePod =
    LivePod { phase: PodPhase::Running, terminating_until: None, running_container: true, ready: true };

/// A pod that runs, without a budget.
pub(crate) fn world() -> World {
    World {
        pod: PodView::Live(RUNNING),
        node_silent_since: None,
        budgets: Vec::new(),
        group: Vec::new(),
        no_room: None,
        turn: false,
        busy: false,
        recovered_at: None,
        asked: None,
        attempt: Attempt::Unknown,
    }
}

/// An Evacuation with these entries, created at 0, of a pod in that state with these registrations.
pub(crate) fn created(requesters: Vec<Requester>, pod: &LivePod, registered: &Registered) -> Evacuation {
    created_in_budget(requesters, pod, registered, false)
}

/// Returns the same of a pod that a budget selects, or does not.
pub(crate) fn created_in_budget(
    requesters: Vec<Requester>,
    pod: &LivePod,
    registered: &Registered,
    in_budget: bool,
) -> Evacuation {
    let live = pod;
    let pod = PodTarget { name: "db-0".to_owned(), uid: Some("pod-1".to_owned()) };
    let spec =
        EvacuationSpec { ttl_seconds_after_finished: Some(3600), ..EvacuationSpec::new(pod, requesters) };
    let mut status = crate::begin(&spec, "alice", &["people".to_owned()], at(0));
    fix_responders(&mut status, &spec.requesters, live, registered, in_budget, at(0));
    let mut evacuation = Evacuation::new("e", spec);
    evacuation.metadata.namespace = Some("ns".to_owned());
    evacuation.metadata.uid = Some("evac-1".to_owned());
    evacuation.metadata.generation = Some(1);
    evacuation.status = Some(status);
    evacuation
}

/// A responder with the default times that was not asked.
pub(crate) fn responder(name: &str, state: ResponderState) -> ResponderStatus {
    ResponderStatus {
        name: name.to_owned(),
        priority: 10_000,
        timeout_seconds: 60,
        max_delay_seconds: 3600,
        state,
        ..ResponderStatus::default()
    }
}

/// The Evacuation of [`evacuation`] with `self` active since 0.
pub(crate) fn asking() -> Evacuation {
    asking_for(vec![requester("a.b/r")])
}

/// Returns the same with other entries.
pub(crate) fn asking_for(requesters: Vec<Requester>) -> Evacuation {
    let mut evacuation = evacuation_for(requesters);
    let active =
        ResponderStatus { active_time: Some(at(0).into()), ..responder("self", ResponderState::Active) };
    evacuation.status.get_or_insert_default().responders = Some(vec![active]);
    evacuation
}

/// A condition that changed at 0.
pub(crate) fn condition(kind: &str, status: &str, reason: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: evacuation_api::condition_time(at(0)),
        observed_generation: None,
    }
}
