use super::*;
use crate::testing::{asking, asking_for, at, condition, requester, requester_of};
use evacuation_api::{DeadlineAction, EvictionStatus, RefusalPolicy, RequesterKey};

fn by(user: &str, may_override: bool) -> Editor<'_> {
    Editor { user, may_override, guarded: true }
}

fn names<'a>(keys: &[RequesterKey<'a>]) -> Vec<&'a str> {
    keys.iter().map(|key| key.name).collect()
}

/// The spec with these entries, of the same pod.
fn spec(requesters: Vec<Requester>) -> EvacuationSpec {
    EvacuationSpec { requesters, ..asking().spec }
}

/// An Evacuation that alice created with `a.b/r` and bob joined with `a.b/bob`.
fn shared() -> Evacuation {
    let mut e = asking();
    let new = spec(vec![requester("a.b/r"), requester_of("bob", "a.b/bob")]);
    let edit = check_requester_edit(&e, &new, by("bob", false), at(1)).unwrap();
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

/// Entries of these names move no other pod of a PodGroup and wait for no budget.
#[test]
fn a_name_of_the_gateways_workload_rows_or_of_the_refresh_needs_override() {
    for (name, is_reserved) in [
        ("gateway.evacuation.dev/job", true),
        ("refresh.evacuation.dev/crash-loop", true),
        ("gateway.evacuation.dev/eviction", false),
        ("a.b/job", false),
    ] {
        let own = requester_of("bob", name);
        let created = check_creation(std::slice::from_ref(&own), "bob");
        let joins = spec(vec![requester("a.b/r"), own]);
        let e = asking();
        let joined = check_requester_edit(&e, &joins, by("bob", false), at(1));
        for error in [created.err(), joined.err()] {
            assert_eq!(error.as_ref().map(EditError::cause), is_reserved.then_some("ReservedName"), "{name}");
            assert!(error.is_none_or(|error| error.is_forbidden()));
        }
        check_requester_edit(&e, &joins, by("bob", true), at(1)).unwrap();
    }
}

/// A drain would tell its operator that the pod goes by itself, or the controller would wait for nobody.
#[test]
fn an_entry_that_stands_for_a_deletion_needs_override() {
    let counted = Requester { budget_patience_seconds: Some(60), ..requester_of("bob", "a.b/job") };
    let own = Requester { caller_deletes_within_seconds: Some(15), ..requester_of("bob", "a.b/job") };
    for (own, field) in [(counted, "budgetPatienceSeconds"), (own, "callerDeletesWithinSeconds")] {
        let created = check_creation(std::slice::from_ref(&own), "bob");
        let joins = spec(vec![requester("a.b/r"), own]);
        let e = asking();
        let joined = check_requester_edit(&e, &joins, by("bob", false), at(1));
        for error in [created.unwrap_err(), joined.unwrap_err()] {
            assert_eq!(error.cause(), "ReservedField");
            assert!(error.is_forbidden() && error.to_string().contains(field), "{error}");
        }
        check_requester_edit(&e, &joins, by("bob", true), at(1)).unwrap();
    }
}

#[test]
fn nobody_touches_the_entry_of_another_without_override() {
    let harder = Requester { on_refusal: Some(RefusalPolicy::Override), ..requester("a.b/r") };
    let softer = Requester { message: Some("please".to_owned()), ..requester("a.b/r") };
    for (what, entries) in [
        ("removed", vec![requester_of("bob", "a.b/bob")]),
        ("hardened", vec![harder, requester_of("bob", "a.b/bob")]),
        ("changed", vec![softer, requester_of("bob", "a.b/bob")]),
        ("removed with the own", vec![]),
    ] {
        let error =
            check_requester_edit(&shared(), &spec(entries.clone()), by("bob", false), at(1)).unwrap_err();
        let expected = EditError::NotYours { requester: "a.b/r".to_owned(), owner: "alice".to_owned() };
        assert_eq!(error, expected, "{what}");
        assert!(error.is_forbidden());
        check_requester_edit(&shared(), &spec(entries), by("bob", true), at(1)).unwrap();
    }
    let order = spec(vec![requester_of("bob", "a.b/bob"), requester("a.b/r")]);
    assert!(
        check_requester_edit(&shared(), &order, by("carol", false), at(1)).unwrap().is_empty(),
        "order means nothing"
    );
}

#[test]
fn an_override_leaves_the_entry_with_its_maker() {
    let e = shared();
    let new = spec(vec![
        Requester { on_refusal: Some(RefusalPolicy::Override), ..requester("a.b/r") },
        requester_of("bob", "a.b/bob"),
    ]);
    let edit = check_requester_edit(&e, &new, by("carol", true), at(1)).unwrap();
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
        let changed = spec(vec![new.clone()]);
        let edit = check_requester_edit(&e, &changed, by("alice", false), at(1)).unwrap();
        assert_eq!(
            (edit.needs_eviction_right(), edit.needs_deletion_right()),
            (hardens, deletes),
            "{old:?} {new:?}"
        );
    }
    let created = [requester("a.b/x"), Requester { name: "a.b/y".into(), ..deadline(1, Delete) }];
    let added = RequesterEdit::creation(&created);
    assert_eq!(names(&added.deleting), ["a.b/y"]);
    assert!(added.needs_eviction_right());
}

#[test]
fn when_the_last_entry_leaves_the_evacuation_is_canceled() {
    let e = asking();
    let empty = spec(vec![]);
    let edit = check_requester_edit(&e, &empty, by("alice", false), at(1)).unwrap();
    assert_eq!(names(&edit.removed), ["a.b/r"]);
    let status = apply_requester_edit(&e, &spec(vec![]), &edit, "alice", &[], at(3));
    assert_eq!(finished_reason(&status), Some("Canceled"));
    let left: Vec<_> = status.requesters.iter().map(|r| (r.user.as_str(), r.left_time)).collect();
    assert_eq!(left, [("alice", Some(at(3).into()))], "whoever asked stays recorded");
    assert_eq!(status.observed_generation, Some(2));

    let e = shared();
    let new = spec(vec![requester("a.b/r")]);
    let edit = check_requester_edit(&e, &new, by("bob", false), at(1)).unwrap();
    assert_eq!(finished_reason(&apply_requester_edit(&e, &new, &edit, "bob", &[], at(3))), None);
}

#[test]
fn one_that_has_ended_cannot_be_joined_or_left() {
    let mut e = asking();
    e.status.get_or_insert_default().conditions = vec![condition("Finished", "True", "Evicted")];
    let finished = EditError::Finished { reason: "Evicted".to_owned() };
    let join = spec(vec![requester("a.b/r"), requester_of("bob", "a.b/bob")]);
    assert_eq!(check_requester_edit(&e, &join, by("bob", false), at(1)).unwrap_err(), finished);
    assert_eq!(check_requester_edit(&e, &spec(vec![]), by("alice", true), at(1)).unwrap_err(), finished);
    let other = EvacuationSpec { ttl_seconds_after_finished: Some(1), ..e.spec.clone() };
    let edit = check_requester_edit(&e, &other, by("alice", false), at(1)).unwrap();
    assert!(edit.is_empty());
    let status = apply_requester_edit(&e, &other, &edit, "alice", &[], at(1));
    assert_eq!(status.observed_generation, Some(2));
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
            let error = check_requester_edit(&e, &spec(entries), by("bob", true), at(1)).unwrap_err();
            assert_eq!(error.cause(), cause);
            assert!(!error.is_forbidden());
        }
        let join = spec(vec![
            requester("a.b/r"),
            requester_of("bob", "a.b/bob"),
            requester_of("carol", "a.b/carol"),
        ]);
        check_requester_edit(&e, &join, by("carol", false), at(1)).unwrap();
    }
    let mut e = shared();
    e.status.get_or_insert_default().eviction =
        Some(EvictionStatus { attempts: 3, ..EvictionStatus::default() });
    check_requester_edit(&e, &spec(vec![requester("a.b/r")]), by("bob", false), at(1)).unwrap();
}

#[test]
fn an_entry_that_has_lapsed_can_leave_but_not_come_back_by_an_edit() {
    let gives_up = Requester {
        deadline: Some(at(0).into()),
        at_deadline: Some(DeadlineAction::GiveUp),
        ..requester("a.b/r")
    };
    let e = asking_for(vec![gives_up]);
    let error =
        check_requester_edit(&e, &spec(vec![requester("a.b/r")]), by("alice", false), at(1)).unwrap_err();
    assert_eq!(error, EditError::Expired { requester: "a.b/r of alice".to_owned() });
    check_requester_edit(&e, &spec(vec![]), by("alice", false), at(1)).unwrap();
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
        let edit = check_requester_edit(&e, &new, by("alice", false), at(now))?;
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
    assert!(matches!(error, EditError::Expired { .. }), "{error}");
}

#[test]
fn an_entry_named_like_that_of_another_user_is_a_separate_one() {
    let e = shared();
    let mut entries = e.spec.requesters.clone();
    entries.push(requester_of("carol", "a.b/r"));
    let new = spec(entries);
    let edit = check_requester_edit(&e, &new, by("carol", false), at(2)).unwrap();
    assert_eq!((edit.added.len(), edit.changed.len(), edit.removed.len()), (1, 0, 0));
    let status = apply_requester_edit(&e, &new, &edit, "carol", &[], at(2));
    let users: Vec<_> = status.requesters.iter().map(|r| (r.name.as_str(), r.user.as_str())).collect();
    assert_eq!(users, [("a.b/r", "alice"), ("a.b/bob", "bob"), ("a.b/r", "carol")]);
}

#[test]
fn nobody_writes_an_entry_under_the_name_of_another_without_override() {
    let e = shared();
    let mut entries = e.spec.requesters.clone();
    entries.push(requester_of("alice", "a.b/forged"));
    let new = spec(entries);
    let error = check_requester_edit(&e, &new, by("carol", false), at(2)).unwrap_err();
    assert_eq!(error, EditError::NotYours { requester: "a.b/forged".to_owned(), owner: "alice".to_owned() });
    let edit = check_requester_edit(&e, &new, by("carol", true), at(2)).unwrap();
    let recorded = apply_requester_edit(&e, &new, &edit, "carol", &[], at(2)).requesters;
    assert_eq!((recorded[2].owner.as_str(), recorded[2].user.as_str()), ("alice", "carol"));
    assert_eq!(check_creation(&new.requesters, "carol").unwrap_err().cause(), "RequesterOfAnother");
}

#[test]
fn above_the_common_maximum_only_a_holder_of_override_joins() {
    let entries: Vec<_> = (0..MAX_REQUESTERS)
        .map(|i| requester_of(&format!("tenant-{}", i % 4), &format!("a.b/{i}")))
        .collect();
    let e = asking_for(entries.clone());
    let join = |name: &str| {
        let mut entries = entries.clone();
        entries.push(requester_of(name, "drain.example.com/node"));
        spec(entries)
    };
    assert_eq!(check_requester_edit(&e, &join("bob"), by("bob", false), at(1)), Err(EditError::Full));
    assert_eq!(check_requester_edit(&e, &join("root"), by("root", true), at(1)).unwrap().added.len(), 1);
    assert!(EditError::Full.is_forbidden());

    // The one above keeps nobody from leaving, nor from changing what is there.
    let above = asking_for(join("root").requesters);
    let mut changed = join("root");
    changed.requesters[0].message = Some("please".to_owned());
    check_requester_edit(&above, &changed, by("tenant-0", false), at(1)).unwrap();
}

#[test]
fn no_entry_is_removed_without_a_resource_version_and_the_conflict_names_those_that_would_be() {
    let unguarded = |user, may_override| Editor { user, may_override, guarded: false };
    let own = spec(vec![requester("a.b/r")]);
    let error = check_requester_edit(&shared(), &own, unguarded("bob", false), at(1)).unwrap_err();
    assert_eq!(error, EditError::Unguarded { requesters: vec!["a.b/bob of bob".to_owned()] });
    assert!(!error.is_forbidden());
    let all = spec(vec![requester_of("root", "a.b/r")]);
    let error = check_requester_edit(&shared(), &all, unguarded("root", true), at(1)).unwrap_err();
    let both = vec!["a.b/r of alice".to_owned(), "a.b/bob of bob".to_owned()];
    assert_eq!(error, EditError::Unguarded { requesters: both });
    let mut join = shared().spec;
    join.requesters.push(requester_of("carol", "a.b/carol"));
    check_requester_edit(&shared(), &join, unguarded("carol", false), at(1)).unwrap();
}

#[test]
fn an_edit_that_gives_up_or_sleeps_sooner_is_a_withdrawal_while_an_eviction_is_in_flight() {
    use DeadlineAction::{Delete, Evict, GiveUp};

    let due = |seconds: i64, action| Requester {
        deadline: Some(at(seconds).into()),
        at_deadline: Some(action),
        ..requester("a.b/r")
    };
    let asleep = Requester {
        window: Some(evacuation_api::Window {
            schedule: "0 3 * * *".to_owned(),
            duration_seconds: 60,
            time_zone: None,
        }),
        ..requester("a.b/r")
    };
    let table = [
        (requester("a.b/r"), due(0, GiveUp), true),
        (requester("a.b/r"), due(1, GiveUp), true),
        (requester("a.b/r"), due(900, GiveUp), true),
        (due(900, GiveUp), due(899, GiveUp), true),
        (due(900, Evict), due(900, GiveUp), true),
        (due(900, Delete), due(900, GiveUp), true),
        (requester("a.b/r"), asleep.clone(), true),
        (due(900, GiveUp), due(901, GiveUp), false),
        (due(900, GiveUp), requester("a.b/r"), false),
        (due(900, Evict), requester("a.b/r"), false),
        (requester("a.b/r"), due(0, Evict), false),
        (asleep, requester("a.b/r"), false),
    ];
    for (old, new, withdraws) in table {
        for (in_flight, cause) in [(true, "EvictionInFlight"), (false, "EvictionAccepted")] {
            let mut e = asking_for(vec![old.clone()]);
            let record =
                EvictionStatus { attempts: 1, in_flight, accepted: !in_flight, ..EvictionStatus::default() };
            e.status.get_or_insert_default().eviction = Some(record);
            let new = spec(vec![new.clone()]);
            let checked = check_requester_edit(&e, &new, by("alice", true), at(1));
            assert_eq!(
                checked.err().map(|error| error.cause()),
                withdraws.then_some(cause),
                "{old:?} {new:?}"
            );
            e.status.get_or_insert_default().eviction = None;
            check_requester_edit(&e, &new, by("alice", false), at(1)).unwrap();
        }
    }
}

#[test]
fn only_an_owner_changes_the_time_to_live_and_not_below_the_floor_of_the_others() {
    let ttl = |e: &Evacuation, seconds| EvacuationSpec {
        ttl_seconds_after_finished: Some(seconds),
        ..e.spec.clone()
    };
    let mut left = shared();
    let mut gone = left.status.take().unwrap();
    gone.requesters[1].left_time = Some(at(1).into());
    left.status = Some(gone);
    left.spec.requesters.truncate(1);
    let table = [
        (asking(), "alice", 0, true),
        (asking(), "alice", 100_000, true),
        (asking(), "mallory", 0, false),
        (asking(), "mallory", 100_000, false),
        (shared(), "alice", 299, false),
        (shared(), "bob", 300, true),
        (shared(), "bob", 299, false),
        (left.clone(), "bob", 300, true),
        (left, "alice", 299, false),
    ];
    for (e, user, seconds, allowed) in table {
        let new = ttl(&e, seconds);
        let checked = check_requester_edit(&e, &new, by(user, false), at(2));
        let cause = (!allowed).then_some("RetentionOfOthers");
        assert_eq!(checked.err().map(|error| error.cause()), cause, "{user} {seconds}");
        check_requester_edit(&e, &new, by("root", true), at(2)).unwrap();
    }
}
