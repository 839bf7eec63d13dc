//! Rehearsals: each responder is asked once, and the pod stays.

use evacuation_api::{BlockedReason, FailedReason, ReviewAction};

use super::*;
use crate::{answer, question, testing::created_in_budget};

/// A rehearsal of a pod with two responders, which gives up after 300 s.
fn rehearsal() -> Evacuation {
    let entries = vec![with_deadline(300, DeadlineAction::GiveUp)];
    let registered: Registered = vec![
        ResponderEntry { priority: Some(20_000), ..ResponderEntry::named("a.b/c") },
        ResponderEntry::named("self"),
    ]
    .into();
    let mut rehearsal = created(entries, &RUNNING, &registered);
    rehearsal.spec.rehearsal = true;
    rehearsal
}

/// Takes an answer as the server does.
fn answers(rehearsal: &mut Evacuation, responder: &str, given: Answer, seconds: i64) {
    let response = evacuation_api::EvacuationResponseSpec {
        responder: Some(responder.to_owned()),
        answer: Some(given),
        delay_seconds: (given == Answer::Delay).then_some(3600),
        retry_after_seconds: (given == Answer::Refuse).then_some(3600),
        ..Default::default()
    };
    rehearsal.status = Some(answer(rehearsal, &response, at(seconds)).unwrap().0);
}

#[test]
fn every_answer_moves_a_rehearsal_on_and_after_the_last_it_ends_without_an_eviction() {
    let all = [Answer::Accept, Answer::Delay, Answer::Refuse];
    for (first, second) in all.into_iter().flat_map(|first| all.map(|second| (first, second))) {
        let mut e = rehearsal();
        answers(&mut e, "a.b/c", first, 1);
        assert!(settled(&mut e, &world(), 1).acts.is_empty());
        assert_eq!(states(e.status.as_ref().unwrap()), [ResponderState::Completed, ResponderState::Active]);
        answers(&mut e, "self", second, 2);
        let after = settled(&mut e, &world(), 2);
        let status = e.status.as_ref().unwrap();
        assert!(after.acts.is_empty(), "{first:?} {second:?}: {after:?}");
        assert_eq!(status.reason(), Some(FailedReason::Rehearsed), "{first:?} {second:?}");
        assert_eq!(finished_reason(status), Some("Rehearsed"));
        assert_eq!(states(status), [ResponderState::Canceled; 2], "both learn that it is over");
        assert_eq!(status.responders.as_ref().unwrap()[0].answer, Some(first), "the answers stay");
        assert_eq!(status.eviction, None);
    }
}

#[test]
fn a_rehearsal_ends_when_nobody_answers_and_at_its_deadline_at_the_latest() {
    let mut e = rehearsal();
    settled(&mut e, &world(), 60);
    settled(&mut e, &world(), 120);
    let status = e.status.as_ref().unwrap();
    assert_eq!(status.reason(), Some(FailedReason::Rehearsed));
    let words = |r: &ResponderStatus| r.message.as_deref() == Some("it was silent for 60 s");
    assert!(status.responders.iter().flatten().all(words), "{:?}", status.responders);
    let mut e = rehearsal();
    settled(&mut e, &world(), 300);
    assert_eq!(e.status.as_ref().unwrap().reason(), Some(FailedReason::DeadlineGaveUp));
}

#[test]
fn a_rehearsal_waits_for_room_in_its_budget_as_an_app_may_stop_its_work() {
    let entries = vec![with_deadline(300, DeadlineAction::GiveUp)];
    let registered: Registered = vec![ResponderEntry::named("self")].into();
    let ready = LivePod { ready: true, ..RUNNING };
    let mut e = created_in_budget(entries, &ready, &registered, true);
    e.spec.rehearsal = true;
    let pod = crate::PodView::Live(ready);
    let full = World { pod: pod.clone(), no_room: Some("web".to_owned()), ..world() };
    settled(&mut e, &full, 1);
    assert_eq!(blocked(e.status.as_ref().unwrap()), Some(BlockedReason::AwaitingTurn.as_str()));
    settled(&mut e, &World { pod, ..world() }, 2);
    assert_eq!(states(e.status.as_ref().unwrap()), [ResponderState::Active]);
}

#[test]
fn the_server_takes_no_attempt_to_evict_in_a_rehearsal_and_no_such_end_of_a_request() {
    let mut e = rehearsal();
    let ended = EvacuationStatus {
        conditions: vec![crate::testing::condition("Failed", "True", "Rehearsed")],
        ..e.status.clone().unwrap()
    };
    assert!(check_status_update(&e, ended.clone(), at(1)).is_err(), "its responders were not asked");
    e.spec.rehearsal = false;
    assert!(check_status_update(&e, ended, at(1)).is_err(), "a request does not end as a rehearsal");

    let mut e = rehearsal();
    for (responder, seconds) in [("a.b/c", 1), ("self", 2)] {
        answers(&mut e, responder, Answer::Accept, seconds);
        let mut next = e.status.clone().unwrap();
        for known in next.responders.iter_mut().flatten().filter(|known| known.answer.is_some()) {
            known.state = ResponderState::Completed;
        }
        if let Some(waiting) =
            next.responders.iter_mut().flatten().find(|known| known.state == ResponderState::Inactive)
        {
            waiting.state = ResponderState::Active;
        }
        e.status = Some(check_status_update(&e, next, at(seconds)).unwrap());
    }
    let mut attempt = e.status.clone().unwrap();
    attempt.eviction = Some(EvictionStatus {
        attempts: 1,
        in_flight: true,
        action: Some(EvictionAction::Evict),
        ..EvictionStatus::default()
    });
    assert!(check_status_update(&e, attempt.clone(), at(3)).is_err());
    e.spec.rehearsal = false;
    assert!(check_status_update(&e, attempt, at(3)).is_ok(), "the same attempt of a request");
}

#[test]
fn an_app_over_http_is_told_that_it_is_a_rehearsal() {
    let mut e = rehearsal();
    assert!(question(&e, "self", ReviewAction::Ask, at(1)).unwrap().rehearsal);
    e.spec.rehearsal = false;
    assert!(!question(&e, "self", ReviewAction::Ask, at(1)).unwrap().rehearsal);
}
