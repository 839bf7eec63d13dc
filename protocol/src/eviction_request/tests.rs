use chrono::DateTime;
use evacuation_api::Answer;
use serde_json::{Value, json};

use super::*;
use crate::upstream::{EVICTOR, has_ended, state};

const UID: &str = "p1";

fn object<T: for<'de> k8s_openapi::serde::Deserialize<'de>>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(minutes: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000 + 60 * minutes, 0).unwrap()
}

fn pod() -> Pod {
    object(json!({
        "metadata": {"name": "db-0", "namespace": "shop", "uid": UID},
        "spec": {"containers": [], "evictionResponders": [{"name": "a.b/c", "priority": 10000}]},
        "status": {"phase": "Running"},
    }))
}

fn request(name: &str, intent: &str) -> EvictionRequest {
    object(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1},
        "spec": {"target": {"pod": {"name": "db-0", "uid": UID}}, "requester": format!("acme.io/{name}"), "intent": intent},
    }))
}

/// An Evacuation that asks `a.b/c` since the time 0, with an entry of each of these requesters.
fn evacuation(entries: &[&str]) -> Evacuation {
    let entry = |name: &&str| json!({"owner": EVICTION_REQUESTS_OWNER, "name": name});
    object(json!({
        "metadata": {"name": "e", "namespace": "shop", "uid": "e1"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": UID}}, "requesters": entries.iter().map(entry).collect::<Vec<_>>()},
        "status": {"conditions": [], "requesters": [], "responders": [{
            "name": "a.b/c", "priority": 10000, "timeoutSeconds": 60, "maxDelaySeconds": 86_400, "state": "Active",
            "activeTime": at(0),
        }]},
    }))
}

fn ended(mut evacuation: Evacuation, kind: &str, reason: &str) -> Evacuation {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "so", "lastTransitionTime": "2026-11-20T22:00:00Z"});
    let status = evacuation.status.as_mut().unwrap();
    status.conditions = object(json!([condition(kind), condition("Finished")]));
    evacuation
}

fn world<'a>(pod: Option<&'a Pod>, requests: &'a [EvictionRequest]) -> EvictionWorld<'a> {
    EvictionWorld {
        namespace: "shop",
        name: "db-0",
        uid: UID,
        pod,
        is_gone: false,
        requests: requests.iter().collect(),
        evictions: Vec::new(),
        evacuations: Vec::new(),
        others_act: false,
    }
}

/// The Eviction of an Evacuation, as it is after all steps at that time.
fn tracked(world: &EvictionWorld<'_>, mut eviction: Option<Eviction>, now: DateTime<Utc>) -> Eviction {
    for _ in 0..5 {
        let mut world = world.clone();
        world.evictions = eviction.iter().collect();
        let step = plan_eviction(&world, now).acts.into_iter().find_map(|act| match act {
            EvictionAct::Create(next) | EvictionAct::Label(next) | EvictionAct::Track(next) => Some(*next),
            _ => None,
        });
        let Some(mut next) = step else { break };
        next.metadata.generation = Some(1);
        eviction = Some(next);
    }
    eviction.unwrap()
}

/// The Eviction of an Evacuation without requests, at the time 0.
fn started(pod: &Pod, evacuation: &Evacuation) -> Eviction {
    let mut world = world(Some(pod), &[]);
    world.evacuations = vec![evacuation];
    tracked(&world, None, at(0))
}

fn turns(eviction: &Eviction) -> Vec<(String, String)> {
    let targets = eviction.status.as_ref().unwrap().target_responders.clone().unwrap_or_default();
    targets.into_iter().map(|target| (target.name, target.state)).collect()
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn the_first_request_asks_and_further_ones_join() {
    let (pod, requests) =
        (pod(), [request("a", "Eviction"), request("b", "Eviction"), request("c", "Withdrawn")]);
    let mut world = world(Some(&pod), &requests);
    let plan = plan_eviction(&world, at(0));
    let [EvictionAct::Ask(entry), ..] = plan.acts.as_slice() else { panic!("{plan:?}") };
    assert_eq!((entry.owner.as_str(), entry.name.as_str()), (EVICTION_REQUESTS_OWNER, "acme.io/a"));

    let evacuation = evacuation(&["acme.io/a"]);
    world.evacuations = vec![&evacuation];
    let plan = plan_eviction(&world, at(0));
    let [EvictionAct::Entries(_, entries), ..] = plan.acts.as_slice() else { panic!("{plan:?}") };
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["acme.io/a", "acme.io/b"]);
}

#[test]
fn a_stalled_responder_gives_way_after_twenty_minutes_and_not_before() {
    let (pod, requests) = (pod(), [request("a", "Eviction")]);
    let mut evacuation = evacuation(&["acme.io/a"]);
    let started = {
        let mut world = world(Some(&pod), &requests);
        world.evacuations = vec![&evacuation];
        tracked(&world, None, at(0))
    };
    assert_eq!(turns(&started), named(&[("a.b/c", state::ACTIVE), (EVICTOR, state::INACTIVE)]));
    // The controller of the Evacuation has given up on it early, and evicts.
    let responders = evacuation.status.as_mut().unwrap().responders.as_mut().unwrap();
    responders[0].state = evacuation_api::ResponderState::Interrupted;
    let mut world = world(Some(&pod), &requests);
    world.evacuations = vec![&evacuation];
    let early = tracked(&world, Some(started.clone()), at(19));
    assert_eq!(turns(&early)[0], ("a.b/c".to_owned(), state::ACTIVE.to_owned()));
    let late = tracked(&world, Some(started), at(20));
    assert_eq!(turns(&late), named(&[("a.b/c", state::INTERRUPTED), (EVICTOR, state::ACTIVE)]));
}

#[test]
fn a_heartbeat_becomes_a_delay_and_a_completion_an_accept() {
    let (pod, requests, evacuation) = (pod(), [request("a", "Eviction")], evacuation(&["acme.io/a"]));
    let mut world = world(Some(&pod), &requests);
    world.evacuations = vec![&evacuation];
    let mut eviction = tracked(&world, None, at(0));
    let voice = |eviction: &Eviction, now| {
        let mut world = world.clone();
        world.evictions = vec![eviction];
        plan_eviction(&world, now).acts.into_iter().find_map(|act| match act {
            EvictionAct::Speak(_, voice) => Some(voice),
            _ => None,
        })
    };
    let said = voice(&eviction, at(5)).unwrap();
    assert_eq!((said.answer.answer, said.answer.delay_seconds), (Some(Answer::Delay), Some(15 * 60)));
    let set = |eviction: &mut Eviction, change: &dyn Fn(&mut crate::upstream::Progress)| {
        change(&mut eviction.status.as_mut().unwrap().responders.as_mut().unwrap()[0]);
    };
    set(&mut eviction, &|said| said.heartbeat_time = Some(crate::upstream::wire(at(4))));
    assert_eq!(voice(&eviction, at(5)).unwrap().answer.delay_seconds, Some(19 * 60));
    set(&mut eviction, &|said| said.completion_time = Some(crate::upstream::wire(at(5))));
    assert_eq!(voice(&eviction, at(5)).unwrap().answer.answer, Some(Answer::Accept));
}

#[test]
fn an_end_is_reported_and_the_pod_is_not_asked_again() {
    let (pod, evacuation) = (pod(), ended(evacuation(&["acme.io/a"]), "Failed", "Refused"));
    let mut requests = [request("a", "Eviction")];
    requests[0].status = Some(object(json!({"observedGeneration": 1})));
    let mut world = world(Some(&pod), &requests);
    world.evacuations = vec![&evacuation];
    let plan = plan_eviction(&world, at(1));
    let [EvictionAct::Report(reported)] = plan.acts.as_slice() else { panic!("{plan:?}") };
    assert!(has_ended(reported.status.as_ref().unwrap().conditions.as_ref()));
    let reported = [(**reported).clone()];
    world.requests = reported.iter().collect();
    assert_eq!(plan_eviction(&world, at(2)).acts, [], "it stays so");
    let mut again = reported[0].clone();
    again.metadata.generation = Some(2);
    world.requests = vec![&again];
    assert!(matches!(plan_eviction(&world, at(2)).acts.as_slice(), [EvictionAct::Ask(_)]), "it was changed");
}

#[test]
fn entries_are_withdrawn_while_others_act() {
    let (pod, requests, evacuation) = (pod(), [request("a", "Eviction")], evacuation(&["acme.io/a"]));
    let mut world = world(Some(&pod), &requests);
    (world.evacuations, world.others_act) = (vec![&evacuation], true);
    assert_eq!(
        plan_eviction(&world, at(0)).acts.first(),
        Some(&EvictionAct::Entries(&evacuation, Vec::new()))
    );

    let foreign: Eviction = object(json!({
        "metadata": {"name": "pod-1-db-0", "namespace": "shop", "uid": "v1"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": UID}}},
    }));
    (world.evictions, world.others_act) = (vec![&foreign], false);
    assert_eq!(
        plan_eviction(&world, at(0)).acts.first(),
        Some(&EvictionAct::Entries(&evacuation, Vec::new()))
    );
}

#[test]
fn a_request_with_its_end_joins_no_later_evacuation() {
    let pod = pod();
    let requests = [invalid_request(&request("a", "Eviction"), "so", at(0))];
    let mut drain = evacuation(&[]);
    drain.spec.requesters = object(json!([{"owner": "admin", "name": "drain.evacuation.dev/n"}]));
    let mut world = world(Some(&pod), &requests);
    world.evacuations = vec![&drain];
    let acts = plan_eviction(&world, at(1)).acts;
    assert!(
        !acts.iter().any(|act| matches!(act, EvictionAct::Entries(..) | EvictionAct::Report(_))),
        "{acts:?}"
    );
}

#[test]
fn requesters_without_a_name_that_the_api_takes_leave_no_empty_list() {
    let (pod, long) = (pod(), format!("drain.evacuation.dev/{}", "n".repeat(64)));
    let mut drain = evacuation(&[]);
    drain.spec.requesters = object(json!([{"owner": "admin", "name": long}]));
    let mut world = world(Some(&pod), &[]);
    world.evacuations = vec![&drain];
    let eviction = tracked(&world, None, at(0));
    assert_eq!(eviction.status.as_ref().unwrap().requesters, None);
    world.evictions = vec![&eviction];
    let plan = plan_eviction(&world, at(0));
    assert!(matches!(plan.acts.as_slice(), [EvictionAct::Speak(..)]), "{plan:?}");
}

#[test]
fn a_responder_has_time_before_an_eviction_can_tell_it_and_while_others_act() {
    let (pod, evacuation) = (pod(), evacuation(&[]));
    let mut world = world(Some(&pod), &[]);
    world.evacuations = vec![&evacuation];
    for others_act in [false, true] {
        world.others_act = others_act;
        let acts = plan_eviction(&world, at(0)).acts;
        let said = acts.iter().find_map(|act| match act {
            EvictionAct::Speak(_, voice) => Some(voice),
            _ => None,
        });
        assert_eq!(said.unwrap().answer.delay_seconds, Some(20 * 60), "{others_act}");
    }
}

#[test]
fn a_heartbeat_that_is_ahead_is_answered_once() {
    let (pod, mut evacuation) = (pod(), evacuation(&[]));
    let mut eviction = started(&pod, &evacuation);
    let ahead = at(1) + chrono::TimeDelta::seconds(25);
    eviction.status.as_mut().unwrap().responders.as_mut().unwrap()[0].heartbeat_time =
        Some(crate::upstream::wire(ahead));
    let responder = &mut evacuation.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
    (responder.answer, responder.answer_time) = (Some(Answer::Delay), Some(crate::time::stamp(at(1))));
    let mut world = world(Some(&pod), &[]);
    (world.evacuations, world.evictions) = (vec![&evacuation], vec![&eviction]);
    let plan = plan_eviction(&world, at(1));
    assert!(!plan.acts.iter().any(|act| matches!(act, EvictionAct::Speak(..))), "{plan:?}");
    assert!(plan.wake_at.is_none_or(|time| time > at(1)));
}

#[test]
fn a_responder_that_refused_makes_no_hurry_when_its_time_is_over() {
    let (pod, mut evacuation) = (pod(), evacuation(&[]));
    let eviction = started(&pod, &evacuation);
    evacuation.status.as_mut().unwrap().responders.as_mut().unwrap()[0].answer = Some(Answer::Refuse);
    let mut world = world(Some(&pod), &[]);
    (world.evacuations, world.evictions) = (vec![&evacuation], vec![&eviction]);
    for minutes in [19, 20, 21] {
        let plan = plan_eviction(&world, at(minutes));
        assert!(plan.wake_at.is_none_or(|time| time > at(minutes)), "{minutes} {plan:?}");
    }
}

#[test]
fn an_eviction_whose_evacuation_is_gone_is_closed_or_goes_on_with_the_next() {
    let pod = pod();
    let eviction = started(&pod, &evacuation(&["acme.io/a"]));
    let mut orphaned = world(Some(&pod), &[]);
    orphaned.evictions = vec![&eviction];
    let plan = plan_eviction(&orphaned, at(1));
    let [EvictionAct::Track(closed)] = plan.acts.as_slice() else { panic!("{plan:?}") };
    assert_eq!(turns(closed)[0].1, state::CANCELED);
    let requests = [request("a", "Eviction")];
    orphaned.requests = requests.iter().collect();
    assert!(matches!(plan_eviction(&orphaned, at(1)).acts.as_slice(), [EvictionAct::Ask(_)]));
    orphaned.evictions.clear();
    orphaned.requests.clear();
    assert_eq!(plan_eviction(&orphaned, at(1)).acts, []);
}

#[test]
fn a_pod_that_nobody_knows_is_read_and_one_of_a_group_is_invalid() {
    let requests = [request("a", "Eviction")];
    let plan = plan_eviction(&world(None, &requests), at(0));
    assert!(plan.reads_pod && plan.acts.is_empty());
    let mut gone = world(None, &requests);
    gone.is_gone = true;
    let plan = plan_eviction(&gone, at(0));
    let [EvictionAct::Report(_)] = plan.acts.as_slice() else { panic!("{plan:?}") };
    let mut grouped = pod();
    grouped.spec.as_mut().unwrap().scheduling_group = Some(object(json!({"podGroupName": "g"})));
    let plan = plan_eviction(&world(Some(&grouped), &requests), at(0));
    let [EvictionAct::Report(reported)] = plan.acts.as_slice() else { panic!("{plan:?}") };
    let conditions = reported.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert!(conditions.iter().any(|condition| condition.reason == "EvictionInvalid"), "{conditions:?}");
}
