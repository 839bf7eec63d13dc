use super::*;
use crate::testing::{asking, asking_for, at, condition, requester};
use evacuation_api::{EvictionStatus, RefusalPolicy};

/// The spec with these entries, of the same pod.
fn spec(requesters: Vec<Requester>) -> EvacuationSpec {
    EvacuationSpec { requesters, ..asking().spec }
}

/// An Evacuation that alice created with `a.b/r` and bob joined with `a.b/bob`.
fn shared() -> Evacuation {
    let mut e = asking();
    let new = spec(vec![requester("a.b/r"), requester("a.b/bob")]);
    let edit = check_requester_edit(&e, &new, "bob", false, at(1)).unwrap();
    e.status = Some(apply_requester_edit(&e, &new, &edit, "bob", &[], at(1)));
    e.spec = new;
    e
}

#[test]
fn joining_records_who_joined_and_when() {
    let e = shared();
    let recorded: Vec<_> =
        e.status.unwrap().requesters.into_iter().map(|r| (r.name, r.user, r.groups, r.time.0)).collect();
    assert_eq!(
        recorded,
        [
            ("a.b/r".to_owned(), "alice".to_owned(), vec!["people".to_owned()], at(0)),
            ("a.b/bob".to_owned(), "bob".to_owned(), vec![], at(1)),
        ]
    );
}

#[test]
fn nobody_touches_the_entry_of_another_without_override() {
    let harder = Requester { on_refusal: Some(RefusalPolicy::Override), ..requester("a.b/r") };
    let softer = Requester { message: Some("please".to_owned()), ..requester("a.b/r") };
    for (what, entries) in [
        ("removed", vec![requester("a.b/bob")]),
        ("hardened", vec![harder, requester("a.b/bob")]),
        ("changed", vec![softer, requester("a.b/bob")]),
        ("removed with the own", vec![]),
    ] {
        let error = check_requester_edit(&shared(), &spec(entries.clone()), "bob", false, at(1)).unwrap_err();
        let expected = EditError::NotYours { requester: "a.b/r".to_owned(), owner: "alice".to_owned() };
        assert_eq!(error, expected, "{what}");
        assert!(error.is_forbidden());
        check_requester_edit(&shared(), &spec(entries), "bob", true, at(1)).unwrap();
    }
    let order = spec(vec![requester("a.b/bob"), requester("a.b/r")]);
    assert!(
        check_requester_edit(&shared(), &order, "carol", false, at(1)).unwrap().is_empty(),
        "order means nothing"
    );
}

#[test]
fn an_override_leaves_the_entry_with_its_maker() {
    let e = shared();
    let new = spec(vec![
        Requester { on_refusal: Some(RefusalPolicy::Override), ..requester("a.b/r") },
        requester("a.b/bob"),
    ]);
    let edit = check_requester_edit(&e, &new, "carol", true, at(1)).unwrap();
    let status = apply_requester_edit(&e, &new, &edit, "carol", &[], at(9));
    assert_eq!((status.requesters[0].user.as_str(), status.requesters[0].time.0), ("alice", at(9)));
    assert_eq!(status.policy.unwrap().on_refusal, RefusalPolicy::Override);
}

#[test]
fn what_asks_for_more_is_hardening_and_what_deletes_needs_the_right_to_delete() {
    use DeadlineAction::{Delete, Evict, GiveUp};

    let deadline = |seconds: i64, action| Requester {
        deadline: Some(at(seconds).into()),
        at_deadline: Some(action),
        ..requester("a.b/r")
    };
    let grace = |seconds| Requester { grace_period_seconds: seconds, ..requester("a.b/r") };
    let refusal = |policy| Requester { on_refusal: Some(policy), ..requester("a.b/r") };
    let table = [
        (requester("a.b/r"), refusal(RefusalPolicy::Wait), false, false),
        (requester("a.b/r"), refusal(RefusalPolicy::Override), true, false),
        (refusal(RefusalPolicy::Override), refusal(RefusalPolicy::GiveUp), false, false),
        (requester("a.b/r"), deadline(60, Evict), true, false),
        (requester("a.b/r"), deadline(60, GiveUp), true, false),
        (requester("a.b/r"), deadline(60, Delete), true, true),
        (deadline(60, Evict), deadline(61, Evict), false, false),
        (deadline(60, Evict), deadline(59, Evict), true, false),
        (deadline(60, Evict), deadline(90, Delete), true, true),
        (deadline(60, Delete), deadline(50, Delete), true, true),
        (deadline(60, Delete), deadline(70, Delete), false, false),
        (deadline(60, Delete), deadline(50, Evict), true, false),
        (deadline(60, Delete), requester("a.b/r"), false, false),
        (deadline(60, GiveUp), requester("a.b/r"), true, false),
        (deadline(60, GiveUp), deadline(61, GiveUp), true, false),
        (deadline(60, GiveUp), deadline(59, GiveUp), false, false),
        (deadline(60, GiveUp), deadline(60, Evict), true, false),
        (deadline(60, GiveUp), deadline(50, Delete), true, true),
        (deadline(60, Evict), deadline(60, GiveUp), false, false),
        (grace(Some(30)), grace(Some(29)), true, false),
        (grace(Some(30)), grace(Some(31)), false, false),
        (grace(None), grace(Some(600)), true, false),
        (grace(Some(0)), grace(None), true, false),
    ];
    for (old, new, hardens, deletes) in table {
        let e = asking_for(vec![old.clone()]);
        let edit = check_requester_edit(&e, &spec(vec![new.clone()]), "alice", false, at(1)).unwrap();
        assert_eq!(
            (edit.needs_eviction_right(), edit.needs_deletion_right()),
            (hardens, deletes),
            "{old:?} {new:?}"
        );
    }
    let added = RequesterEdit::creation(&[
        requester("a.b/x"),
        Requester { name: "a.b/y".into(), ..deadline(1, Delete) },
    ]);
    assert_eq!(added.deleting, ["a.b/y"]);
    assert!(added.needs_eviction_right());
}

#[test]
fn when_the_last_entry_leaves_the_evacuation_is_canceled() {
    let e = asking();
    let edit = check_requester_edit(&e, &spec(vec![]), "alice", false, at(1)).unwrap();
    assert_eq!(edit.removed, ["a.b/r"]);
    let status = apply_requester_edit(&e, &spec(vec![]), &edit, "alice", &[], at(3));
    assert_eq!(finished_reason(&status), Some("Canceled"));
    assert!(status.requesters.is_empty());

    let e = shared();
    let new = spec(vec![requester("a.b/r")]);
    let edit = check_requester_edit(&e, &new, "bob", false, at(1)).unwrap();
    assert_eq!(finished_reason(&apply_requester_edit(&e, &new, &edit, "bob", &[], at(3))), None);
}

#[test]
fn one_that_has_ended_cannot_be_joined_or_left() {
    let mut e = asking();
    e.status.get_or_insert_default().conditions = vec![condition("Finished", "True", "Evicted")];
    let finished = EditError::Finished { reason: "Evicted".to_owned() };
    let join = spec(vec![requester("a.b/r"), requester("a.b/bob")]);
    assert_eq!(check_requester_edit(&e, &join, "bob", false, at(1)).unwrap_err(), finished);
    assert_eq!(check_requester_edit(&e, &spec(vec![]), "alice", true, at(1)).unwrap_err(), finished);
    let other = EvacuationSpec { ttl_seconds_after_finished: Some(1), ..e.spec.clone() };
    assert!(check_requester_edit(&e, &other, "bob", false, at(1)).unwrap().is_empty());
}

#[test]
fn the_fence_holds_withdrawals_back_while_an_eviction_is_in_flight_or_accepted() {
    for (in_flight, cause) in [(true, "EvictionInFlight"), (false, "EvictionAccepted")] {
        let mut e = shared();
        e.status.get_or_insert_default().eviction = Some(EvictionStatus {
            attempts: 1,
            in_flight,
            accepted: !in_flight,
            ..EvictionStatus::default()
        });
        for entries in [vec![], vec![requester("a.b/r")]] {
            let error = check_requester_edit(&e, &spec(entries), "bob", true, at(1)).unwrap_err();
            assert_eq!(error.cause(), cause);
            assert!(!error.is_forbidden());
        }
        let join = spec(vec![requester("a.b/r"), requester("a.b/bob"), requester("a.b/carol")]);
        check_requester_edit(&e, &join, "carol", false, at(1)).unwrap();
    }
    let mut e = shared();
    e.status.get_or_insert_default().eviction =
        Some(EvictionStatus { attempts: 3, ..EvictionStatus::default() });
    check_requester_edit(&e, &spec(vec![requester("a.b/r")]), "bob", false, at(1)).unwrap();
}

#[test]
fn an_entry_that_has_lapsed_can_leave_but_not_come_back_by_an_edit() {
    let gives_up = Requester {
        deadline: Some(at(0).into()),
        at_deadline: Some(DeadlineAction::GiveUp),
        ..requester("a.b/r")
    };
    let e = asking_for(vec![gives_up]);
    let error = check_requester_edit(&e, &spec(vec![requester("a.b/r")]), "alice", false, at(1)).unwrap_err();
    assert_eq!(error, EditError::Lapsed { requester: "a.b/r".to_owned() });
    check_requester_edit(&e, &spec(vec![]), "alice", false, at(1)).unwrap();
}

#[test]
fn a_deadline_that_has_passed_is_not_extended_although_nobody_has_recorded_it() {
    let until = |seconds: i64, action| Requester {
        deadline: Some(at(seconds).into()),
        at_deadline: Some(action),
        ..requester("a.b/r")
    };
    let edited = |before: Requester, after: Requester, now| {
        let (e, new) = (asking_for(vec![before]), spec(vec![after]));
        let edit = check_requester_edit(&e, &new, "alice", false, at(now))?;
        let status = apply_requester_edit(&e, &new, &edit, "alice", &[], at(now));
        Ok::<_, EditError>(status.policy.unwrap().deadlines)
    };
    for action in [DeadlineAction::Evict, DeadlineAction::Delete] {
        let extended = edited(until(10, action), until(100, action), 9).unwrap();
        assert_eq!((extended[0].time, extended[0].reached), (at(100).into(), false));
        let kept = edited(until(10, action), until(100, action), 10).unwrap();
        assert_eq!((kept[0].time, kept[0].reached), (at(10).into(), true));
        let kept = edited(until(10, action), requester("a.b/r"), 10).unwrap();
        assert!(kept[0].reached, "nor is it taken away");
    }
    let gives_up = |seconds| until(seconds, DeadlineAction::GiveUp);
    edited(gives_up(10), gives_up(100), 9).unwrap();
    let error = edited(gives_up(10), gives_up(100), 10).unwrap_err();
    assert!(matches!(error, EditError::Lapsed { .. }), "{error}");
}
