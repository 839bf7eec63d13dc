use super::*;
use crate::{
    EvictionOutcome, record_eviction,
    testing::{asking, asking_for, at, condition, evacuation, evacuation_for, requester, responder},
};
use evacuation_api::{
    Answer, AttemptResult, DeadlineAction, EvictionAction, EvictionStatus, HttpEndpoint, MAX_MESSAGE_LENGTH,
    RefusalPolicy, Requester,
    ResponderState::{self, Active, Canceled, Completed, Inactive, Interrupted},
};

/// Returns the result of a write that changes the stored status by `change`, at so many seconds.
fn write(
    old: &Evacuation,
    seconds: i64,
    change: impl FnOnce(&mut EvacuationStatus),
) -> Result<EvacuationStatus, Vec<StatusError>> {
    let mut proposed = old.status.clone().unwrap();
    change(&mut proposed);
    check_status_update(old, proposed, at(seconds))
}

fn set_state(status: &mut EvacuationStatus, index: usize, state: ResponderState) {
    status.responders.as_mut().unwrap()[index].state = state;
}

/// `self` Active since 0 with that answer, under that policy and deadline.
fn answered(
    answer: Option<Answer>,
    on_refusal: RefusalPolicy,
    deadline: Option<(i64, DeadlineAction)>,
) -> Evacuation {
    let mut e = asking_for(vec![Requester {
        on_refusal: Some(on_refusal),
        deadline: deadline.map(|(seconds, _)| at(seconds).into()),
        at_deadline: deadline.map(|(_, action)| action),
        ..requester("a.b/r")
    }]);
    let r = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
    r.answer = answer;
    r.answer_time = answer.map(|_| at(1).into());
    r.delay_until = (answer == Some(Answer::Delay)).then(|| at(30).into());
    e
}

#[test]
fn rule_7_what_the_server_and_the_responders_own_is_restored() {
    let mut old = answered(Some(Answer::Delay), RefusalPolicy::Wait, None);
    old.status.as_mut().unwrap().node_name = Some("node-a".to_owned());
    let next = write(&old, 5, |s| {
        s.node_name = Some("node-b".to_owned());
        s.requesters.clear();
        s.policy = None;
        s.observed_generation = Some(99);
        let r = &mut s.responders.as_mut().unwrap()[0];
        r.answer = Some(Answer::Accept);
        r.answer_time = Some(at(3).into());
        r.delay_until = None;
        r.retry_time = Some(at(3).into());
        r.active_time = Some(at(-500).into());
        r.message = Some("forged".to_owned());
        r.cancellation_acknowledged = true;
        s.finish_time = Some(at(3).into());
    })
    .unwrap();
    let mut expected = old.status.clone().unwrap();
    expected.observed_generation = Some(1);
    assert_eq!(next, expected);
}

/// [`answered`] with an endpoint.
fn pushed(answer: Option<Answer>) -> Evacuation {
    let mut e = answered(answer, RefusalPolicy::Wait, None);
    let r = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
    r.http = Some(HttpEndpoint { port: 80, path: None, allow_host_network: None });
    e
}

#[test]
fn rule_9_the_first_delivered_question_is_recorded_once_at_the_servers_time() {
    let asked = |e: &Evacuation, seconds| {
        let next = write(e, seconds, |s| {
            s.responders.as_mut().unwrap()[0].asked_time = Some(at(-500).into());
        });
        next.unwrap().responders.unwrap()[0].asked_time.map(|time| time.0)
    };
    let mut e = pushed(None);
    assert_eq!(asked(&e, 20), Some(at(20)));
    e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].asked_time = Some(at(7).into());
    assert_eq!(asked(&e, 20), Some(at(7)), "it never moves");
    assert_eq!(asked(&pushed(Some(Answer::Delay)), 20), None, "it has answered");
    assert_eq!(asked(&answered(None, RefusalPolicy::Wait, None), 20), None, "it watches");
}

#[test]
fn rule_9_an_endpoint_out_of_reach_is_recorded_once_at_the_servers_time_and_before_it_is_asked_alone() {
    let told = |e: &Evacuation, asked: bool| {
        let next = write(e, 20, |s| {
            let r = &mut s.responders.as_mut().unwrap()[0];
            r.unreachable_time = Some(at(-500).into());
            r.asked_time = asked.then(|| at(-500).into());
        });
        next.unwrap().responders.unwrap()[0].unreachable_time.map(|time| time.0)
    };
    let mut e = pushed(None);
    assert_eq!((told(&e, false), told(&e, true)), (Some(at(20)), None));
    let r = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
    r.unreachable_time = Some(at(7).into());
    assert_eq!((told(&e, false), told(&e, true)), (Some(at(7)), Some(at(7))), "it never moves");
    assert!(write(&e, 66, |s| set_state(s, 0, Interrupted)).is_err());
    assert!(write(&e, 67, |s| set_state(s, 0, Interrupted)).is_ok());
    assert_eq!(told(&pushed(Some(Answer::Delay)), false), None, "it has answered");
    assert_eq!(told(&answered(None, RefusalPolicy::Wait, None), false), None, "it watches");
}

#[test]
fn what_kept_a_question_from_an_endpoint_is_told_until_one_reaches_it() {
    let mut e = pushed(None);
    e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].message = Some("refused".to_owned());
    let told = |asked: bool| {
        let next = write(&e, 20, |s| {
            let r = &mut s.responders.as_mut().unwrap()[0];
            (r.message, r.asked_time) = (None, asked.then(|| at(20).into()));
        });
        next.unwrap().responders.unwrap().remove(0).message
    };
    assert_eq!((told(false).as_deref(), told(true)), (Some("refused"), None));
}

#[test]
fn what_was_wrong_with_a_reply_is_recorded_until_the_endpoint_answers() {
    let message = |e: &Evacuation, message: &str| {
        let next = write(e, 20, |s| {
            s.responders.as_mut().unwrap()[0].message = Some(message.to_owned());
        });
        next.unwrap().responders.unwrap().remove(0).message
    };
    assert_eq!(
        message(&pushed(None), "its reply does not count").as_deref(),
        Some("its reply does not count")
    );
    assert_eq!(message(&pushed(None), &"x".repeat(MAX_MESSAGE_LENGTH + 1)), None, "it is too long");
    assert_eq!(message(&pushed(None), "\u{9b}2J"), None, "it is for terminals, too");
    assert_eq!(message(&pushed(Some(Answer::Delay)), "forged"), None, "the message is the app's");
    assert_eq!(message(&answered(None, RefusalPolicy::Wait, None), "forged"), None, "it watches");
}

#[test]
fn what_was_wrong_with_the_reply_to_a_reminder_is_recorded_beside_the_words_of_the_app() {
    let failure = |e: &Evacuation, failure: Option<&str>| {
        let next = write(e, 20, |s| {
            let r = &mut s.responders.as_mut().unwrap()[0];
            (r.message, r.failure) = (Some("forged".to_owned()), failure.map(str::to_owned));
        });
        let r = next.unwrap().responders.unwrap().remove(0);
        (r.message, r.failure)
    };
    for answer in [Answer::Delay, Answer::Refuse] {
        let mut e = pushed(Some(answer));
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].message = Some("a backup runs".to_owned());
        let words = Some("a backup runs".to_owned());
        assert_eq!(failure(&e, Some("500")), (words.clone(), Some("500".to_owned())), "{answer:?}");
        assert_eq!(failure(&e, Some("\u{9b}2J")), (words.clone(), None), "it is for terminals, too");
        let long = "x".repeat(MAX_MESSAGE_LENGTH + 1);
        assert_eq!(failure(&e, Some(&long)), (words.clone(), None), "it is too long");
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].failure = Some("500".to_owned());
        assert_eq!(failure(&e, None), (words, Some("500".to_owned())), "another process leads");
    }
    assert_eq!(failure(&pushed(None), Some("500")).1, None, "it has not answered");
    assert_eq!(failure(&pushed(Some(Answer::Accept)), Some("500")).1, None, "it is not asked again");
    let watches = answered(Some(Answer::Refuse), RefusalPolicy::Wait, None);
    assert_eq!(failure(&watches, Some("500")).1, None, "it watches");
}

#[test]
fn rule_9_an_endpoint_that_was_not_asked_is_not_passed_over() {
    let mut e = pushed(None);
    let interrupt = |e: &Evacuation, seconds| write(e, seconds, |s| set_state(s, 0, Interrupted));
    let errors = interrupt(&e, 5000).unwrap_err();
    assert!(matches!(&errors[..], [StatusError::Transition { why, .. }] if why.contains("not delivered")));
    e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].asked_time = Some(at(4000).into());
    assert!(matches!(&interrupt(&e, 4059).unwrap_err()[..], [StatusError::NotYet { .. }]));
    assert!(interrupt(&e, 4060).is_ok());
}

#[test]
fn rule_6_each_transition_needs_what_the_table_says_and_its_time() {
    use Answer::{Accept, Delay, Refuse};
    use DeadlineAction::{Delete, Evict, GiveUp};
    use RefusalPolicy::{GiveUp as Give, Override, Wait};
    // Answer, policy, deadline, new state, seconds; then: fine, not before so many seconds, or wrong.
    enum Want {
        Fine,
        NotBefore(i64),
        Wrong,
    }
    use Want::{Fine, NotBefore, Wrong};
    let table = [
        (None, Wait, None, Completed, 5, Wrong),
        (Some(Accept), Wait, None, Completed, 5, Fine),
        (Some(Delay), Wait, None, Completed, 5, Wrong),
        (Some(Refuse), Wait, None, Completed, 5, Wrong),
        (Some(Refuse), Give, None, Completed, 5, Wrong),
        (Some(Refuse), Override, None, Completed, 5, Fine),
        (None, Wait, None, Interrupted, 59, NotBefore(60)),
        (None, Wait, None, Interrupted, 60, Fine),
        (Some(Delay), Wait, None, Interrupted, 29, NotBefore(30)),
        (Some(Delay), Wait, None, Interrupted, 30, Fine),
        (Some(Accept), Wait, None, Interrupted, 999, Wrong),
        (Some(Refuse), Wait, None, Interrupted, 999, Wrong),
        (None, Wait, Some((20, Evict)), Interrupted, 19, NotBefore(20)),
        (None, Wait, Some((20, Evict)), Interrupted, 20, Fine),
        (Some(Refuse), Wait, Some((20, Evict)), Interrupted, 19, NotBefore(20)),
        (Some(Refuse), Wait, Some((20, Delete)), Interrupted, 20, Fine),
        (Some(Accept), Wait, Some((20, Evict)), Interrupted, 20, Wrong),
        (Some(Refuse), Wait, Some((20, GiveUp)), Interrupted, 20, Wrong),
        (None, Wait, Some((20, GiveUp)), Interrupted, 19, NotBefore(60)),
        (None, Wait, None, Inactive, 5, Wrong),
        (None, Wait, None, Canceled, 5, Wrong),
    ];
    for (i, (answer, policy, deadline, to, seconds, want)) in table.into_iter().enumerate() {
        let result = write(&answered(answer, policy, deadline), seconds, |s| {
            set_state(s, 0, to);
        });
        match (want, result) {
            (Fine, Ok(next)) => assert_eq!(next.responders.unwrap()[0].state, to, "row {i}"),
            (NotBefore(until), Err(errors)) => {
                assert!(
                    matches!(&errors[..], [StatusError::NotYet { until: u, .. }] if *u == at(until)),
                    "row {i}: {errors:?}"
                );
                let wait = errors[0].retry_after_seconds(at(seconds));
                assert_eq!(wait, u32::try_from(until - seconds).ok(), "row {i}");
            }
            (Wrong, Err(errors)) => {
                assert!(matches!(&errors[..], [StatusError::Transition { .. }]), "row {i}: {errors:?}");
            }
            (_, result) => panic!("row {i}: {result:?}"),
        }
    }
}

#[test]
fn rule_6_what_is_done_never_changes_again() {
    for from in [Interrupted, Completed] {
        for to in [Inactive, Active, Interrupted, Completed, Canceled] {
            let mut old = answered(Some(Answer::Accept), RefusalPolicy::Wait, None);
            set_state(old.status.as_mut().unwrap(), 0, from);
            let result = write(&old, 999, |s| set_state(s, 0, to));
            assert_eq!(result.is_ok(), from == to, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn one_write_hands_on_from_one_responder_to_the_next() {
    let mut old = answered(Some(Answer::Accept), RefusalPolicy::Wait, None);
    old.status.as_mut().unwrap().responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
    let next = write(&old, 5, |s| {
        set_state(s, 0, Completed);
        set_state(s, 1, Active);
    })
    .unwrap();
    let responders = next.responders.unwrap();
    assert_eq!((responders[0].state, responders[1].state), (Completed, Active));
    assert_eq!(responders[1].active_time, Some(at(5).into()), "the server's time");
}

#[test]
fn nobodys_turn_comes_before_those_of_higher_priority_are_done() {
    let mut old = asking();
    old.status.as_mut().unwrap().responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
    let errors = write(&old, 5, |s| set_state(s, 1, Active)).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "responder a.b/next cannot go from Inactive to Active: one of higher priority is not done"
    );
}

#[test]
fn only_self_and_only_in_its_turn_is_passed_over_without_a_deadline() {
    let mut old = evacuation();
    old.status.as_mut().unwrap().responders =
        Some(vec![responder("a.b/first", Inactive), responder("self", Inactive)]);
    assert!(write(&old, 5, |s| set_state(s, 0, Interrupted)).is_err());
    assert!(write(&old, 5, |s| set_state(s, 1, Interrupted)).is_err(), "not its turn");
    set_state(old.status.as_mut().unwrap(), 0, Completed);
    let next = write(&old, 5, |s| {
        set_state(s, 1, Interrupted);
        s.responders.as_mut().unwrap()[1].message = Some("no container runs".to_owned());
    })
    .unwrap();
    assert_eq!(next.responders.unwrap()[1].message.as_deref(), Some("no container runs"));
}

#[test]
fn self_is_passed_over_early_only_with_the_claim_that_its_node_was_unreachable_when_it_was_asked() {
    let pass = |e: &Evacuation, reason: Option<&str>| {
        write(e, 5, |s| {
            set_state(s, 0, Interrupted);
            s.responders.as_mut().unwrap()[0].reason = reason.map(str::to_owned);
        })
    };
    assert!(matches!(pass(&asking(), None).unwrap_err()[..], [StatusError::NotYet { .. }]));
    let passed = pass(&asking(), Some("NodeUnreachable")).unwrap().responders.unwrap();
    assert_eq!((passed[0].state, passed[0].reason.as_deref()), (Interrupted, Some("NodeUnreachable")));
    assert!(pass(&asking(), Some("Whim")).is_err());
    let delayed = answered(Some(Answer::Delay), RefusalPolicy::Wait, None);
    assert!(pass(&delayed, Some("NodeUnreachable")).is_err(), "an app that answers is reachable");
    let mut other = asking();
    other.status.as_mut().unwrap().responders.as_mut().unwrap()[0].name = "a.b/other".to_owned();
    assert!(pass(&other, Some("NodeUnreachable")).is_err(), "only self is on the node");
}

#[test]
fn the_controller_changes_nothing_of_the_list_that_the_server_fixed() {
    let mut unfixed = evacuation();
    unfixed.status.as_mut().unwrap().responders = None;
    assert!(write(&unfixed, 5, |s| s.responders = Some(vec![])).is_err());

    let old = asking();
    for (why, change) in [
        (
            "removed",
            Box::new(|s: &mut EvacuationStatus| s.responders = None) as Box<dyn Fn(&mut EvacuationStatus)>,
        ),
        ("emptied", Box::new(|s| s.responders = Some(vec![]))),
        ("added", Box::new(|s| s.responders.as_mut().unwrap().push(responder("a.b/x", Inactive)))),
        ("renamed", Box::new(|s| s.responders.as_mut().unwrap()[0].name = "a.b/x".to_owned())),
        ("timeout", Box::new(|s| s.responders.as_mut().unwrap()[0].timeout_seconds = 1)),
    ] {
        let errors = write(&old, 5, change).unwrap_err();
        assert_eq!(errors, [StatusError::Responders { why: "the list is fixed at creation" }], "{why}");
    }
}

fn evicting(eviction: EvictionStatus) -> Evacuation {
    let mut old = answered(Some(Answer::Accept), RefusalPolicy::Wait, None);
    let status = old.status.as_mut().unwrap();
    set_state(status, 0, Completed);
    status.eviction = Some(eviction);
    old
}

fn in_flight() -> EvictionStatus {
    EvictionStatus {
        attempts: 1,
        in_flight: true,
        last_attempt_time: Some(at(2).into()),
        ..EvictionStatus::default()
    }
}

#[test]
fn an_attempt_is_counted_and_timed_by_the_server_and_needs_every_responder_done() {
    let old = answered(Some(Answer::Accept), RefusalPolicy::Wait, None);
    let attempt = |s: &mut EvacuationStatus| {
        s.eviction = Some(EvictionStatus { in_flight: true, attempts: 77, ..EvictionStatus::default() });
    };
    let next = write(&old, 5, |s| {
        set_state(s, 0, Completed);
        attempt(s);
    })
    .unwrap();
    let eviction = next.eviction.unwrap();
    assert_eq!((eviction.attempts, eviction.last_attempt_time), (1, Some(at(5).into())));
    assert!(matches!(write(&old, 5, attempt).unwrap_err()[..], [StatusError::Eviction { .. }]));
    let mut unfixed = evacuation();
    unfixed.status.as_mut().unwrap().responders = None;
    assert!(write(&unfixed, 5, attempt).is_err(), "nobody knows whom to ask");

    let mut lapsed = evacuation_for(vec![Requester {
        deadline: Some(at(3).into()),
        at_deadline: Some(DeadlineAction::GiveUp),
        ..requester("a.b/r")
    }]);
    lapsed.status.as_mut().unwrap().responders = Some(vec![]);
    assert!(write(&lapsed, 2, attempt).is_ok());
    assert!(write(&lapsed, 3, attempt).is_err(), "nobody wants the pod moved any more");
}

type Change = Box<dyn Fn(&mut EvacuationStatus)>;

#[test]
fn an_attempt_is_taken_for_lost_only_when_its_time_is_over_by_the_servers_clock() {
    let old = evicting(in_flight());
    let record = |outcome: &EvictionOutcome, now| {
        // The controller's clock is a minute ahead.
        let status = record_eviction(old.status.as_ref().unwrap(), outcome, 0.5, at(now + 60));
        check_status_update(&old, status, at(now)).map(|status| status.eviction.unwrap().in_flight)
    };
    let too_early = record(&EvictionOutcome::NotTaken, 11).unwrap_err();
    assert!(
        matches!(&too_early[..], [StatusError::NotYet { until, .. }] if *until == at(12)),
        "{too_early:?}"
    );
    assert_eq!(record(&EvictionOutcome::NotTaken, 12), Ok(false));
    let refused = EvictionOutcome::Rejected { retry_after_seconds: None, message: "no".to_owned() };
    assert_eq!(record(&refused, 3), Ok(false), "what the API said is known at once");
    assert_eq!(record(&EvictionOutcome::Accepted, 3), Ok(false));
}

#[test]
fn whether_an_attempt_was_lost_shows_in_its_result_whatever_its_message_says() {
    let old = evicting(in_flight());
    let ended = |result, accepted| {
        move |s: &mut EvacuationStatus| {
            let e = s.eviction.as_mut().unwrap();
            (e.in_flight, e.accepted, e.last_attempt_result) = (false, accepted, Some(result));
            e.message = Some("in other words".to_owned());
        }
    };
    let early = write(&old, 11, ended(AttemptResult::NotTaken, false)).unwrap_err();
    assert!(matches!(early[..], [StatusError::NotYet { .. }]), "{early:?}");
    let recorded = |result, accepted, now| {
        let status = write(&old, now, ended(result, accepted)).unwrap();
        status.eviction.unwrap().last_attempt_result.unwrap()
    };
    for (result, accepted, now) in [
        (AttemptResult::NotTaken, false, 12),
        (AttemptResult::Rejected, false, 3),
        (AttemptResult::Accepted, true, 3),
    ] {
        assert_eq!(recorded(result, accepted, now), result);
        assert!(write(&old, now, ended(result, !accepted)).is_err(), "{result:?}");
    }
}

#[test]
fn a_deletion_begins_only_after_a_delete_deadline() {
    let delete = |s: &mut EvacuationStatus| {
        s.eviction = Some(EvictionStatus {
            attempts: 1,
            in_flight: true,
            action: Some(EvictionAction::Delete),
            ..EvictionStatus::default()
        });
    };
    let ready = |deadline: Option<DeadlineAction>| {
        let mut e = evacuation_for(vec![Requester {
            deadline: deadline.map(|_| at(3).into()),
            at_deadline: deadline,
            ..requester("a.b/r")
        }]);
        e.status.as_mut().unwrap().responders = Some(vec![]);
        e
    };
    for none in [ready(None), ready(Some(DeadlineAction::Evict))] {
        let errors = write(&none, 5, delete).unwrap_err();
        assert!(matches!(errors[..], [StatusError::Eviction { .. }]), "{errors:?}");
    }
    write(&ready(Some(DeadlineAction::Delete)), 3, delete).unwrap();
}

#[test]
fn what_was_said_to_an_attempt_does_not_stay_with_the_next() {
    let lost = record_eviction(
        evicting(in_flight()).status.as_ref().unwrap(),
        &EvictionOutcome::NotTaken,
        0.5,
        at(12),
    );
    let mut old = evicting(lost.eviction.unwrap());
    let again = write(&old, 13, |s| s.eviction.as_mut().unwrap().in_flight = true).unwrap();
    let eviction = again.eviction.as_ref().unwrap();
    assert_eq!((&eviction.message, eviction.last_attempt_result), (&None, None));
    old.status = Some(again);
    // The pod began to go before the attempt was posted.
    let dropped = write(&old, 14, |s| s.eviction.as_mut().unwrap().in_flight = false);
    assert!(!dropped.unwrap().eviction.unwrap().in_flight);
}

#[test]
fn the_outcome_of_an_attempt_is_recorded_once() {
    let outcome = |accepted| {
        move |s: &mut EvacuationStatus| {
            let e = s.eviction.as_mut().unwrap();
            e.in_flight = false;
            e.accepted = accepted;
        }
    };
    for accepted in [true, false] {
        let eviction = write(&evicting(in_flight()), 5, outcome(accepted)).unwrap().eviction.unwrap();
        assert_eq!((eviction.accepted, eviction.attempts), (accepted, 1));
    }
    let idle = EvictionStatus { in_flight: false, ..in_flight() };
    let accepted = EvictionStatus { accepted: true, ..idle.clone() };
    let table: [(&str, EvictionStatus, Change); 5] = [
        ("accepted while in flight", in_flight(), Box::new(|s| s.eviction.as_mut().unwrap().accepted = true)),
        ("accepted without an attempt", idle.clone(), Box::new(outcome(true))),
        ("taken back", accepted.clone(), Box::new(outcome(false))),
        ("attempted again", accepted, Box::new(|s| s.eviction.as_mut().unwrap().in_flight = true)),
        ("removed", idle, Box::new(|s| s.eviction = None)),
    ];
    for (why, eviction, change) in table {
        assert!(write(&evicting(eviction), 5, change).is_err(), "{why}");
    }
}

#[test]
fn an_end_needs_its_grounds() {
    let refused = answered(Some(Answer::Refuse), RefusalPolicy::GiveUp, None);
    let waiting = answered(Some(Answer::Refuse), RefusalPolicy::Wait, None);
    let gives_up = answered(None, RefusalPolicy::Wait, Some((20, DeadlineAction::GiveUp)));
    let idle = EvictionStatus { in_flight: false, ..in_flight() };
    let accepted = EvictionStatus { accepted: true, ..idle.clone() };
    let mut deleting = evicting(in_flight());
    deleting.spec.requesters[0].deadline = Some(at(1).into());
    deleting.spec.requesters[0].at_deadline = Some(DeadlineAction::Delete);
    // What was tried counts, whatever was reached since.
    let mut evicted_before = deleting.clone();
    for (of, action) in
        [(&mut deleting, EvictionAction::Delete), (&mut evicted_before, EvictionAction::Evict)]
    {
        of.status.as_mut().unwrap().eviction.as_mut().unwrap().action = Some(action);
    }
    let table = [
        (&asking(), 5, "Evacuated", "GoneByOther", true),
        (&asking(), 5, "Evacuated", "TerminatedInPlace", true),
        (&asking(), 5, "Evacuated", "Evicted", false),
        (&asking(), 5, "Evacuated", "Vanished", false),
        (&evicting(idle), 5, "Evacuated", "Evicted", false),
        (&evicting(in_flight()), 5, "Evacuated", "Evicted", true),
        (&evicting(accepted.clone()), 5, "Evacuated", "Evicted", true),
        (&evicting(in_flight()), 5, "Evacuated", "Deleted", false),
        (&deleting, 5, "Evacuated", "Deleted", true),
        (&deleting, 5, "Evacuated", "Evicted", false),
        (&evicted_before, 5, "Evacuated", "Deleted", false),
        (&evicted_before, 5, "Evacuated", "Evicted", true),
        (&refused, 5, "Failed", "Refused", true),
        (&waiting, 5, "Failed", "Refused", false),
        (&asking(), 5, "Failed", "Refused", false),
        (&asking(), 5, "Failed", "Canceled", false),
        (&asking(), 5, "Failed", "DeadlineGaveUp", false),
        (&gives_up, 19, "Failed", "DeadlineGaveUp", false),
        (&gives_up, 20, "Failed", "DeadlineGaveUp", true),
        (&evicting(in_flight()), 5, "Failed", "Refused", false),
        (&evicting(accepted), 5, "Failed", "Refused", false),
        (&asking(), 5, "Finished", "Because", false),
        (&asking(), 5, "Strange", "Because", false),
        (&asking(), 5, "Blocked", "Because", false),
        (&asking(), 5, "Blocked", "NotBlocked", false),
        (&asking(), 5, "Blocked", "Refused", true),
    ];
    for (old, seconds, kind, reason, fine) in table {
        let result = write(old, seconds, |s| {
            s.conditions.push(condition(kind, "True", reason));
        });
        assert_eq!(result.is_ok(), fine, "{kind} {reason}: {result:?}");
    }
    let result = write(&refused, 5, |s| {
        s.conditions.push(condition("Failed", "True", "Refused"));
        s.conditions.push(condition("Evacuated", "True", "GoneByOther"));
    });
    assert!(result.is_err(), "both");
    let errors = write(&gives_up, 19, |s| {
        s.conditions.push(condition("Failed", "True", "DeadlineGaveUp"));
    });
    assert!(matches!(errors.unwrap_err()[..], [StatusError::NotYet { until, .. }] if until == at(20)));
}

#[test]
fn the_end_is_completed_by_the_server_and_nothing_changes_after_it() {
    let mut old = answered(Some(Answer::Refuse), RefusalPolicy::GiveUp, None);
    let status = old.status.as_mut().unwrap();
    status.conditions = vec![condition("Blocked", "True", "Refused")];
    status.responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
    let next = write(&old, 5, |s| {
        s.conditions.push(condition("Failed", "True", "Refused"));
    })
    .unwrap();
    let after: Vec<_> = next.responders.iter().flatten().map(|r| r.state).collect();
    assert_eq!(after, [Canceled, Canceled]);
    assert_eq!((finished_reason(&next), next.finish_time), (Some("Refused"), Some(at(5).into())));
    assert_eq!(next.conditions[0].status, "False");

    old.status = Some(next.clone());
    assert_eq!(write(&old, 9, |s| s.observed_generation = Some(5)), Ok(next), "saying the same is no change");
    for change in [
        (|s: &mut EvacuationStatus| set_state(s, 0, Active)) as fn(&mut EvacuationStatus),
        |s| s.conditions[1].status = "False".to_owned(),
        |s| s.conditions[1].message = "other".to_owned(),
        |s| s.eviction = Some(in_flight()),
        |s| s.responders.as_mut().unwrap()[0].cancellation_acknowledged = true,
    ] {
        assert_eq!(write(&old, 9, change), Err(vec![StatusError::Finished { reason: "Refused".to_owned() }]));
    }
}

#[test]
fn a_condition_keeps_its_transition_time_until_its_status_changes() {
    let mut old = asking();
    let blocked = |seconds, message: &str| {
        let mut c = condition("Blocked", "True", "Refused");
        c.message = message.to_owned();
        c.last_transition_time = evacuation_api::condition_time(at(seconds));
        c
    };
    let next = write(&old, 5, |s| s.conditions = vec![blocked(500, "one")]).unwrap();
    assert_eq!(next.conditions, [blocked(5, "one")], "the server's time");
    old.status = Some(next);
    let next = write(&old, 9, |s| s.conditions = vec![blocked(500, "two")]).unwrap();
    assert_eq!(next.conditions, [blocked(5, "two")]);
    let next = write(&old, 9, |s| s.conditions.clear()).unwrap();
    assert_eq!(next.conditions, [blocked(5, "one")], "none is removed");
}

#[test]
fn a_controller_whose_clock_is_ahead_is_told_to_wait() {
    let old = answered(None, RefusalPolicy::Wait, Some((20, DeadlineAction::GiveUp)));
    let errors = write(&old, 19, |s| {
        s.policy.as_mut().unwrap().deadlines[0].reached = true;
    })
    .unwrap_err();
    assert!(matches!(errors[..], [StatusError::NotYet { until, .. }] if until == at(20)));
    let next = write(&old, 20, |s| {
        s.policy.as_mut().unwrap().deadlines[0].reached = true;
    })
    .unwrap();
    assert!(next.policy.unwrap().deadlines[0].reached);
}

#[test]
fn every_error_is_gathered() {
    let mut old = asking();
    old.status.as_mut().unwrap().responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
    let errors = write(&old, 5, |s| {
        set_state(s, 0, Completed);
        s.eviction = Some(in_flight());
        s.conditions.push(condition("Failed", "True", "Canceled"));
    })
    .unwrap_err();
    assert_eq!(
        errors.iter().map(StatusError::field).collect::<Vec<_>>(),
        ["status.responders[self].state", "status.eviction", "status.conditions[Failed]",]
    );
}

#[test]
fn rule_6_a_write_that_is_only_too_early_is_not_also_wrong() {
    let old = answered(None, RefusalPolicy::Wait, None);
    let skip_and_evict = |s: &mut EvacuationStatus| {
        set_state(s, 0, Interrupted);
        s.eviction = Some(EvictionStatus { attempts: 1, in_flight: true, ..EvictionStatus::default() });
    };
    let errors = write(&old, 59, skip_and_evict).unwrap_err();
    assert!(matches!(errors[..], [StatusError::NotYet { until, .. }] if until == at(60)), "{errors:?}");
    write(&old, 60, skip_and_evict).unwrap();
}

#[test]
fn the_time_under_a_budget_restarts_when_another_reason_comes_between_and_is_the_servers_alone() {
    let blocked = |old: &Evacuation, seconds, reason: &str| {
        let written = write(old, seconds, |status| {
            status.conditions = vec![condition("Blocked", "True", reason)];
            // The controller cannot make it older than it is.
            status.eviction.as_mut().unwrap().budget_blocked_time = Some(at(-1000).into());
        });
        let mut next = old.clone();
        next.status = Some(written.unwrap());
        let since = next.status.as_ref().unwrap().eviction.as_ref().unwrap().budget_blocked_time;
        (next, since.map(|time| time.0))
    };
    let idle = EvictionStatus { in_flight: false, ..in_flight() };
    let (rejected, since) = blocked(&evicting(idle), 5, "EvictionRejected");
    assert_eq!(since, None, "a webhook is no budget");
    let (exhausted, since) = blocked(&rejected, 10, "BudgetExhausted");
    assert_eq!(since, Some(at(10)));
    let (several, since) = blocked(&exhausted, 20, "MultipleBudgets");
    assert_eq!(since, Some(at(10)), "still budgets");
    assert_eq!(blocked(&several, 25, "BudgetExhausted").1, Some(at(10)));
    let (rejected, since) = blocked(&several, 30, "EvictionRejected");
    assert_eq!(since, None);
    assert_eq!(blocked(&rejected, 40, "BudgetExhausted").1, Some(at(40)), "it begins again");
    let free = write(&several, 50, |status| {
        status.conditions = vec![condition("Blocked", "False", "NotBlocked")];
    });
    assert_eq!(free.unwrap().eviction.unwrap().budget_blocked_time, None);
}
