use super::*;
use crate::{
    Act, Decision, EditError, Editor, Phase, StatusError, World, apply_requester_edit, cancel,
    check_requester_edit, check_status_update, continues_by, decide, derive_policy, finished_reason, phase,
    requester_warnings, state_word,
    testing::{asking_for, at, evacuation_for, evacuation_of_app, requester, world},
};
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, Evacuation, EvacuationSpec, EvictionAction, EvictionStatus,
    RefusalPolicy, ResponderState, Window,
};

/// An entry with a window of a minute, that minute after midnight, which is [`at`] zero.
fn sleeper(name: &str, minute: u32) -> Requester {
    Requester {
        window: Some(Window { schedule: format!("{minute} 0 * * *"), duration_seconds: 60, time_zone: None }),
        ..requester(name)
    }
}

fn with_deadline(entry: Requester, seconds: i64, action: DeadlineAction) -> Requester {
    Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..entry }
}

fn overriding(entry: Requester, grace_period: i64) -> Requester {
    Requester { on_refusal: Some(RefusalPolicy::Override), grace_period_seconds: Some(grace_period), ..entry }
}

fn alice() -> Editor<'static> {
    Editor { user: "alice", may_override: false, guarded: true }
}

/// Writes until nothing is left to write, and says what is done then. The server takes each write.
#[track_caller]
fn settle(evacuation: &mut Evacuation, world: &World, seconds: i64) -> Decision {
    for _ in 0..5 {
        let decision = decide(evacuation, world, at(seconds));
        let [Act::WriteStatus(status)] = &decision.acts[..] else {
            return decision;
        };
        let taken = check_status_update(evacuation, (**status).clone(), at(seconds));
        assert_eq!(taken.as_ref(), Ok(&**status), "the server makes the same of it");
        evacuation.status = taken.ok();
    }
    panic!("the writing does not end: {:?}", evacuation.status);
}

fn policy(evacuation: &Evacuation) -> &Policy {
    evacuation.status.as_ref().unwrap().policy.as_ref().unwrap()
}

/// Returns the Evacuation after an edit by alice.
fn edited(evacuation: &Evacuation, requesters: Vec<Requester>, seconds: i64) -> Evacuation {
    let spec = EvacuationSpec { requesters, ..evacuation.spec.clone() };
    let edit = check_requester_edit(evacuation, &spec, alice(), at(seconds)).unwrap();
    let status = apply_requester_edit(evacuation, &spec, &edit, "alice", &[], at(seconds));
    let mut next = evacuation.clone();
    next.spec = spec;
    next.status = Some(status);
    next
}

#[test]
fn an_entry_sleeps_until_its_window_opens_and_is_awake_from_then_on() {
    let requesters = [overriding(sleeper("a.b/s", 2), 7)];
    let mut before = None;
    for (seconds, awake) in [(0, false), (119, false), (120, true), (500, true), (90_000, true)] {
        let policy = derive_policy(&requesters, before.as_ref(), at(seconds));
        let expected = if awake {
            (RefusalPolicy::Override, Some(7), None)
        } else {
            (RefusalPolicy::GiveUp, None, Some(at(120).into()))
        };
        assert_eq!(
            (policy.on_refusal, policy.grace_period_seconds, policy.next_window_time),
            expected,
            "{seconds}"
        );
        assert_eq!(all_asleep(&requesters, &policy), !awake);
        before = Some(policy);
    }
}

#[test]
fn a_window_that_is_open_when_its_entry_is_put_counts() {
    for (seconds, wakes) in [(119, 120), (120, 120), (179, 179), (180, 120 + 24 * 3600)] {
        let policy = derive_policy(&[sleeper("a.b/s", 2)], None, at(seconds));
        assert_eq!(policy.windows[0].time, at(wakes).into(), "{seconds}");
        assert_eq!(policy.windows[0].reached, wakes <= seconds);
    }
}

#[test]
fn an_entry_that_woke_stays_awake_when_the_clock_goes_back() {
    let requesters = [sleeper("a.b/s", 1)];
    let awake = derive_policy(&requesters, None, at(60));
    assert_eq!(derive_policy(&requesters, Some(&awake), at(3)), awake);
}

#[test]
fn a_sleeping_entry_does_not_count_beside_one_that_is_awake() {
    let requesters = [overriding(sleeper("a.b/s", 1), 3), requester("a.b/r")];
    let before = derive_policy(&requesters, None, at(0));
    assert_eq!((before.on_refusal, before.grace_period_seconds), (RefusalPolicy::Wait, None));
    assert!(!all_asleep(&requesters, &before));
    let after = derive_policy(&requesters, Some(&before), at(60));
    assert_eq!((after.on_refusal, after.grace_period_seconds), (RefusalPolicy::Override, Some(3)));
}

#[test]
fn its_deadline_wakes_an_entry_and_a_give_up_lapses_it_asleep() {
    for action in [DeadlineAction::Evict, DeadlineAction::Delete] {
        let requesters = [with_deadline(overriding(sleeper("a.b/s", 5), 3), 10, action)];
        let policy = derive_policy(&requesters, None, at(10));
        assert!(!all_asleep(&requesters, &policy), "{action:?}");
        assert_eq!((policy.grace_period_seconds, policy.next_window_time), (Some(3), None));
    }
    let requesters = [with_deadline(sleeper("a.b/s", 5), 10, DeadlineAction::GiveUp), sleeper("a.b/t", 6)];
    let policy = derive_policy(&requesters, None, at(10));
    assert_eq!(policy.next_window_time, Some(at(360).into()), "who lapsed wakes no more");
    assert!(all_asleep(&requesters, &policy));
    let lapsed = derive_policy(&requesters[..1], None, at(10));
    assert!(!all_asleep(&requesters[..1], &lapsed), "it ends");
}

#[test]
fn a_window_that_cannot_be_read_never_opens() {
    let mut entry = sleeper("a.b/s", 1);
    entry.window.as_mut().unwrap().time_zone = Some("Mars/Base".to_owned());
    let requesters = [entry];
    let policy = derive_policy(&requesters, None, at(0));
    assert_eq!((&policy.windows[..], policy.next_window_time), (&[][..], None));
    assert!(all_asleep(&requesters, &policy));
}

#[test]
fn while_everybody_sleeps_nobody_is_asked_and_nothing_is_evicted() {
    for create in [evacuation_for, evacuation_of_app] {
        let world = world();
        let mut e = create(vec![sleeper("a.b/s", 3), sleeper("a.b/t", 2)]);
        let decision = settle(&mut e, &world, 1);
        assert_eq!((&decision.acts[..], decision.wake_at), (&[][..], Some(at(120))));
        assert_eq!(
            (phase(&e), state_word(&e), policy(&e).next_window_time),
            (Phase::Pending, "Scheduled", Some(at(120).into()))
        );
        assert_eq!(continues_by(&e), Some(at(120)));
        assert_eq!(settle(&mut e, &world, 119), decision);
        settle(&mut e, &world, 120);
        assert_ne!(phase(&e), Phase::Pending);
        assert_ne!(state_word(&e), "Scheduled");
    }
}

#[test]
fn when_a_sleeper_wakes_the_policy_is_made_anew() {
    let refusing = || {
        let mut e = asking_for(vec![requester("a.b/r"), overriding(sleeper("a.b/s", 1), 5)]);
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        responders[0].answer = Some(Answer::Refuse);
        responders[0].answer_time = Some(at(1).into());
        e
    };
    let mut e = refusing();
    let decision = settle(&mut e, &world(), 2);
    assert_eq!((state_word(&e), decision.wake_at), ("Refused", Some(at(60))));
    settle(&mut e, &world(), 60);
    assert_eq!(phase(&e), Phase::Evicting);
    assert_eq!(policy(&e).grace_period_seconds, Some(5));
}

#[test]
fn a_deadline_acts_while_everybody_sleeps() {
    let forced = |action| {
        let mut e = evacuation_of_app(vec![with_deadline(sleeper("a.b/s", 9), 10, action)]);
        let decision = settle(&mut e, &world(), 9);
        assert_eq!((&decision.acts[..], decision.wake_at), (&[][..], Some(at(10))));
        settle(&mut e, &world(), 10);
        e
    };
    for (action, attempt) in
        [(DeadlineAction::Evict, EvictionAction::Evict), (DeadlineAction::Delete, EvictionAction::Delete)]
    {
        let e = forced(action);
        let status = e.status.as_ref().unwrap();
        assert_eq!(status.responders.as_ref().unwrap()[0].state, ResponderState::Interrupted);
        let eviction = status.eviction.as_ref().unwrap();
        assert_eq!((eviction.in_flight, eviction.action), (true, Some(attempt)));
    }
    let e = forced(DeadlineAction::GiveUp);
    assert_eq!(finished_reason(e.status.as_ref().unwrap()), Some("DeadlineGaveUp"));
}

#[test]
fn one_who_joins_awake_starts_it_and_one_who_leaves_asleep_alone_rests_it() {
    let mut e = evacuation_of_app(vec![sleeper("a.b/s", 9)]);
    settle(&mut e, &world(), 1);
    let mut e = edited(&e, vec![sleeper("a.b/s", 9), requester("a.b/r")], 2);
    settle(&mut e, &world(), 2);
    assert_eq!(state_word(&e), "Asking");

    let mut e = edited(&e, vec![sleeper("a.b/s", 9)], 3);
    let decision = settle(&mut e, &world(), 3);
    assert_eq!((state_word(&e), decision.wake_at), ("Scheduled", Some(at(540))));
    let decision = settle(&mut e, &world(), 500);
    let responders = |e: &Evacuation| e.status.clone().unwrap().responders.unwrap();
    assert_eq!(
        (&decision.acts[..], responders(&e)[0].state),
        (&[][..], ResponderState::Active),
        "nobody is passed over"
    );
    settle(&mut e, &world(), 540);
    assert_eq!(responders(&e)[0].state, ResponderState::Interrupted, "its time is long over");
}

#[test]
fn an_eviction_that_a_budget_holds_back_rests_when_those_who_are_awake_leave() {
    let mut e = evacuation_for(vec![sleeper("a.b/s", 9), requester("a.b/r")]);
    let status = e.status.as_mut().unwrap();
    status.responders = Some(vec![]);
    status.eviction = Some(EvictionStatus {
        attempts: 1,
        last_attempt_time: Some(at(1).into()),
        ..EvictionStatus::default()
    });
    status.conditions = vec![crate::testing::condition("Blocked", "True", "EvictionRejected")];
    let mut e = edited(&e, vec![sleeper("a.b/s", 9)], 3);
    let decision = settle(&mut e, &world(), 4);
    assert_eq!(decision.acts, []);
    let status = e.status.as_ref().unwrap();
    assert!(!status.is_true(ConditionType::Blocked));
    settle(&mut e, &world(), 540);
    assert_eq!(e.status.unwrap().eviction.unwrap().attempts, 2);
}

#[test]
fn what_is_on_its_way_does_not_rest() {
    let mut e = evacuation_for(vec![sleeper("a.b/s", 9)]);
    let status = e.status.as_mut().unwrap();
    status.responders = Some(vec![]);
    status.eviction = Some(EvictionStatus {
        attempts: 1,
        in_flight: true,
        last_attempt_time: Some(at(0).into()),
        ..EvictionStatus::default()
    });
    let decision = settle(&mut e, &world(), 20);
    assert_eq!(decision.acts, [Act::ResolveInFlight]);
    assert_eq!(state_word(&e), "Evicting");
}

#[test]
fn an_entry_keeps_its_time_while_it_keeps_its_window() {
    let e = evacuation_for(vec![sleeper("a.b/r", 1)]);
    let times = |e: &Evacuation| policy(e).windows.clone();
    let reworded = Requester { message: Some("please".to_owned()), ..sleeper("a.b/r", 1) };
    let awake = edited(&e, vec![reworded.clone()], 100);
    assert_eq!(times(&awake)[0].time, at(60).into(), "an edit of the words does not put it to sleep again");
    assert!(times(&awake)[0].reached);

    let moved = edited(&awake, vec![sleeper("a.b/r", 5)], 101);
    assert_eq!(
        (times(&moved)[0].time, times(&moved)[0].reached),
        (at(300).into(), false),
        "another window counts from the edit"
    );
    let back = edited(&moved, vec![sleeper("a.b/r", 1)], 200);
    assert_eq!(times(&back)[0].time, at(60 + 24 * 3600).into());
    let dropped = edited(&moved, vec![requester("a.b/r")], 200);
    assert_eq!((times(&dropped), policy(&dropped).next_window_time), (vec![], None));
    assert!(!all_asleep(&dropped.spec.requesters, policy(&dropped)));
}

#[test]
fn the_fence_holds_back_who_would_wait_for_a_window_while_an_eviction_is_in_flight() {
    for (before, after, held) in [
        (requester("a.b/r"), sleeper("a.b/r", 9), true),
        (sleeper("a.b/r", 0), sleeper("a.b/r", 9), true),
        (sleeper("a.b/r", 0), requester("a.b/r"), false),
    ] {
        let mut e = evacuation_for(vec![before]);
        e.status.as_mut().unwrap().eviction =
            Some(EvictionStatus { attempts: 1, in_flight: true, ..EvictionStatus::default() });
        let spec = EvacuationSpec { requesters: vec![after.clone()], ..e.spec.clone() };
        let checked = check_requester_edit(&e, &spec, alice(), at(0));
        let refused = matches!(checked, Err(EditError::EvictionInFlight { .. }));
        assert_eq!(refused, held, "{after:?}");
        e.status.as_mut().unwrap().eviction.as_mut().unwrap().in_flight = false;
        check_requester_edit(&e, &spec, alice(), at(0)).unwrap();
    }
}

#[test]
fn dropping_or_changing_a_window_is_hardening_and_adding_one_is_not() {
    for (before, after, hardens) in [
        (requester("a.b/r"), sleeper("a.b/r", 1), false),
        (sleeper("a.b/r", 1), sleeper("a.b/r", 2), true),
        (sleeper("a.b/r", 1), requester("a.b/r"), true),
        (sleeper("a.b/r", 1), Requester { message: Some("x".to_owned()), ..sleeper("a.b/r", 1) }, false),
    ] {
        let e = evacuation_for(vec![before]);
        let spec = EvacuationSpec { requesters: vec![after.clone()], ..e.spec.clone() };
        let edit = check_requester_edit(&e, &spec, alice(), at(0)).unwrap();
        assert_eq!(edit.needs_eviction_right(), hardens, "{after:?}");
    }
}

/// Returns the result of a write by a controller whose clock is that far ahead.
fn hasty(e: &Evacuation, world: &World, now: i64, ahead: i64) -> Result<EvacuationStatus, Vec<StatusError>> {
    let decision = decide(e, world, at(now + ahead));
    let [Act::WriteStatus(status)] = &decision.acts[..] else { panic!("no write: {decision:?}") };
    check_status_update(e, (**status).clone(), at(now))
}

#[test]
fn a_controller_whose_clock_is_ahead_is_told_when_the_window_opens() {
    let alone = evacuation_for(vec![sleeper("a.b/s", 1)]);
    let registered = evacuation_of_app(vec![sleeper("a.b/s", 1)]);
    let beside = evacuation_of_app(vec![requester("a.b/r"), overriding(sleeper("a.b/s", 1), 5)]);
    let mut asked = beside.clone();
    // Silent until 80.
    settle(&mut asked, &world(), 20);
    for e in [&alone, &registered, &asked] {
        let world = world();
        let errors = hasty(e, &world, 30, 31).unwrap_err();
        assert!(
            errors.iter().all(|error| matches!(error, StatusError::NotYet { until, .. } if *until == at(60))),
            "{errors:?}"
        );
        hasty(e, &world, 60, 0).unwrap();
    }
}

#[test]
fn while_everybody_sleeps_the_server_takes_no_step_of_a_negotiation() {
    type Change = fn(&mut EvacuationStatus);
    let waiting = evacuation_of_app(vec![sleeper("a.b/s", 9)]);
    let mut begun = asking_for(vec![sleeper("a.b/s", 9)]);
    let mut accepted = begun.clone();
    let responders = accepted.status.as_mut().unwrap().responders.as_mut().unwrap();
    responders[0].answer = Some(Answer::Accept);
    let mut refused = begun.clone();
    let responders = refused.status.as_mut().unwrap().responders.as_mut().unwrap();
    responders[0].answer = Some(Answer::Refuse);
    let mut done = begun.clone();
    let responders = done.status.as_mut().unwrap().responders.as_mut().unwrap();
    responders[0].state = ResponderState::Interrupted;
    let steps: [(&Evacuation, Change); 5] = [
        (&waiting, |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Active;
        }),
        (&begun, |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Interrupted;
        }),
        (&accepted, |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Completed;
        }),
        (&refused, |s| {
            s.conditions = vec![crate::testing::condition("Failed", "True", "Refused")];
        }),
        (&done, |s| s.eviction.get_or_insert_default().in_flight = true),
    ];
    for (i, (old, step)) in steps.into_iter().enumerate() {
        let write = |seconds| {
            let mut proposed = old.status.clone().unwrap();
            step(&mut proposed);
            check_status_update(old, proposed, at(seconds))
        };
        assert!(write(500).is_err(), "step {i}");
        if i != 3 {
            write(540).unwrap();
        }
    }
    begun.spec.requesters.clear();
    let canceled = cancel(begun.status.as_ref().unwrap(), "the last requester left", at(3));
    assert_eq!(finished_reason(&canceled), Some("Canceled"));
}

#[test]
fn a_deadline_before_the_window_is_warned_of() {
    let entry = |seconds| with_deadline(sleeper("a.b/s", 2), seconds, DeadlineAction::Delete);
    for (seconds, warned) in [(119, true), (120, true), (121, false)] {
        let requesters = [entry(seconds), requester("a.b/r")];
        let policy = derive_policy(&requesters, None, at(0));
        let warnings = requester_warnings(&requesters, &policy, &[requesters[0].key()]);
        assert_eq!(warnings.len(), usize::from(warned), "{seconds} {warnings:?}");
        assert_eq!(
            requester_warnings(&requesters, &policy, &[requesters[1].key()]),
            [] as [String; 0],
            "only of one's own"
        );
    }
}
