use evacuation_api::{
    BlockedReason, DeadlineAction, Evacuation, EvacuationStatus, REFRESH_REQUESTER, REPLACEMENT_RESPONDER,
    ResponderEntry,
};

use super::*;
use crate::{
    Act, Member, MemberState, PodView, World, check_status_update, decide,
    testing::{RUNNING, at, created_in_budget, requester, world},
};

/// Returns a world in which budget `web` lets no further pod be asked.
fn full() -> World {
    World { no_room: Some("web".to_owned()), ..world() }
}

/// Returns an Evacuation of a pod in a budget with that entry, whose responders are these, by priority.
fn asked(entry: Requester, responders: &[(&str, bool)]) -> Evacuation {
    let mut priority = 100;
    let entries: Vec<_> = responders
        .iter()
        .map(|(name, serves)| {
            priority -= 1;
            ResponderEntry {
                priority: Some(priority),
                serves_until_termination: *serves,
                ..ResponderEntry::named(name)
            }
        })
        .collect();
    created_in_budget(vec![entry], &RUNNING, &entries.into(), true)
}

fn states(status: &EvacuationStatus) -> Vec<ResponderState> {
    status.responders.iter().flatten().map(|responder| responder.state).collect()
}

/// Returns the status after the next step, which the server takes as it is.
#[track_caller]
fn next(evacuation: &Evacuation, world: &World, seconds: i64) -> EvacuationStatus {
    let decision = decide(evacuation, world, at(seconds));
    let Some(Act::WriteStatus(status)) = decision.acts.first() else {
        return evacuation.status.clone().unwrap();
    };
    let taken = check_status_update(evacuation, (**status).clone(), at(seconds));
    assert_eq!(taken.as_ref(), Ok(&**status), "the server makes the same of it");
    taken.unwrap()
}

#[test]
fn an_app_is_asked_when_its_budget_has_room() {
    use ResponderState::{Active, Inactive};
    let mut e = asked(requester("a.b/r"), &[("self", false)]);
    assert_eq!(states(e.status.as_ref().unwrap()), [Inactive], "the server does not see the budget");
    let held = next(&e, &full(), 1);
    assert_eq!((states(&held), held.reason()), (vec![Inactive], Some(BlockedReason::AwaitingTurn)));
    assert_eq!(held.conditions[0].message, "budget web lets no further pod be asked now");
    e.status = Some(held);
    assert_eq!(decide(&e, &full(), at(2)).acts, [], "it waits, and writes nothing");
    let asking = next(&e, &world(), 3);
    assert_eq!((states(&asking), asking.reason::<BlockedReason>()), (vec![Active], None));
    assert!(may_have_stopped(&asking));
    e.status = Some(asking);
    assert_eq!(decide(&e, &full(), at(4)).acts, [], "it was asked, and stays asked");
}

#[test]
fn what_takes_nothing_away_is_asked_at_once() {
    use ResponderState::{Active, Inactive};
    let table = [
        ("an app that stops", "a.b/r", ("self", false), Inactive),
        ("an app that serves until its end", "a.b/r", ("self", true), Active),
        ("an operator", "a.b/r", ("db.acme.io/failover", false), Inactive),
        ("an operator that fails over", "a.b/r", ("db.acme.io/failover", true), Active),
        ("the replacement before the pod goes", "a.b/r", (REPLACEMENT_RESPONDER, false), Active),
        ("a scale-down", "gateway.evacuation.dev/replicaset", ("self", false), Active),
        ("a refresh of a crashing pod", REFRESH_REQUESTER, ("self", false), Active),
        ("a drain by kubectl", "gateway.evacuation.dev/drain", ("self", false), Inactive),
    ];
    for (case, entry, responder, expected) in table {
        let e = asked(requester(entry), &[responder]);
        assert_eq!(states(e.status.as_ref().unwrap()), [expected], "{case}: at creation");
        assert_eq!(states(&next(&e, &full(), 1)), [expected], "{case}: by the controller");
    }
    let unready = LivePod { ready: false, ..RUNNING };
    let entries = vec![ResponderEntry::named("self")];
    let e = created_in_budget(vec![requester("a.b/r")], &unready, &entries.into(), true);
    assert_eq!(states(e.status.as_ref().unwrap()), [Active], "a pod that does not serve");
    let e = asked(requester("a.b/r"), &[("self", false)]);
    let unready = World { pod: PodView::Live(unready), ..full() };
    assert_eq!(states(&next(&e, &unready, 1)), [Active], "a pod that stopped to serve");
    let gang = vec![Member { pod: "db-1".to_owned(), state: MemberState::Asking }];
    assert_eq!(
        states(&next(&e, &World { group: gang, ..full() }, 1)),
        [Active],
        "a gang is asked as a whole"
    );
}

#[test]
fn the_responder_that_stops_the_pod_waits_and_those_before_and_after_it_do_not() {
    use ResponderState::{Active, Completed, Inactive};
    let all = [(REPLACEMENT_RESPONDER, false), ("self", false), ("a.b/last", false)];
    let mut e = asked(requester("a.b/r"), &all);
    let answer = |e: &mut Evacuation, i: usize, answer| {
        let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[i];
        (responder.answer, responder.answer_time) = (Some(answer), Some(at(5).into()));
    };
    answer(&mut e, 0, Answer::Accept);
    assert!(!may_have_stopped(e.status.as_ref().unwrap()), "a replacement takes nothing away");
    let held = next(&e, &full(), 6);
    assert_eq!(states(&held), [Completed, Inactive, Inactive]);
    e.status = Some(held);
    e.status = Some(next(&e, &world(), 7));
    answer(&mut e, 1, Answer::Accept);
    assert_eq!(states(&next(&e, &full(), 8)), [Completed, Completed, Active], "it has stopped already");
}

#[test]
fn an_app_that_refuses_goes_on_serving() {
    let mut e = asked(requester("a.b/r"), &[("self", false)]);
    let status = next(&e, &world(), 1);
    e.status = Some(status);
    let status = e.status.as_mut().unwrap();
    assert!(may_have_stopped(status));
    for (answer, stops) in [(Answer::Refuse, false), (Answer::Delay, true), (Answer::Accept, true)] {
        status.responders.as_mut().unwrap()[0].answer = Some(answer);
        assert_eq!(may_have_stopped(status), stops, "{answer:?}");
    }
}

#[test]
fn before_a_deletion_all_responders_have_their_time_to_answer() {
    use ResponderState::{Active, Inactive};
    let until = |action, seconds| Requester {
        deadline: Some(at(seconds).into()),
        at_deadline: Some(action),
        ..requester("a.b/r")
    };
    // Two responders of a minute each.
    let all = [("self", false), ("a.b/last", false)];
    let e = asked(until(DeadlineAction::Delete, 300), &all);
    assert_eq!(states(e.status.as_ref().unwrap()), [Inactive, Inactive]);
    let mut held = e.clone();
    held.status = Some(next(&e, &full(), 1));
    assert_eq!(decide(&held, &full(), at(2)).wake_at, Some(at(180)));
    assert_eq!(states(&next(&held, &full(), 179)), [Inactive, Inactive]);
    assert_eq!(states(&next(&held, &full(), 180)), [Active, Inactive]);
    let soon = asked(until(DeadlineAction::Delete, 100), &all);
    assert_eq!(states(soon.status.as_ref().unwrap()), [Active, Inactive], "at creation, too");
    // The budget holds an eviction back, so that the pod serves on.
    let evicts = asked(until(DeadlineAction::Evict, 100), &all);
    assert_eq!(states(&next(&evicts, &full(), 99)), [Inactive, Inactive]);
}

#[test]
fn the_pods_that_serve_are_never_fewer_than_the_budget_wants() {
    for (serving, desired, expected) in [(3, 2, 1), (2, 2, 0), (1, 2, -1), (6, 0, 6), (1, 1, 0)] {
        assert_eq!(room(serving, desired), expected, "{serving} of {desired}");
    }
}
