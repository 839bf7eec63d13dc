use super::*;
use crate::{
    cancel,
    testing::{asking, asking_for, at, requester},
};
use evacuation_api::{DeadlineAction, HttpEndpoint, Requester};

fn say(answer: Answer) -> EvacuationResponseSpec {
    EvacuationResponseSpec { answer: Some(answer), ..EvacuationResponseSpec::default() }
}

fn delay(seconds: i64) -> EvacuationResponseSpec {
    EvacuationResponseSpec { delay_seconds: Some(seconds), ..say(Answer::Delay) }
}

/// Gives an answer and returns the responder that follows and the reply.
fn give(
    evacuation: &mut Evacuation,
    response: &EvacuationResponseSpec,
    seconds: i64,
) -> Result<(ResponderStatus, EvacuationResponseStatus), AnswerError> {
    let (status, reply) = answer(evacuation, response, at(seconds))?;
    let responder = status.responders.as_ref().unwrap()[0].clone();
    evacuation.status = Some(status);
    Ok((responder, reply))
}

#[test]
fn an_accept_is_recorded_with_the_servers_time() {
    let mut e = asking();
    let spec = EvacuationResponseSpec {
        reason: Some("Drained".to_owned()),
        message: Some("go".to_owned()),
        ..say(Answer::Accept)
    };
    let (r, reply) = give(&mut e, &spec, 7).unwrap();
    assert_eq!(
        (r.answer, r.answer_time, r.state),
        (Some(Answer::Accept), Some(at(7).into()), ResponderState::Active)
    );
    assert_eq!((r.reason.as_deref(), r.message.as_deref()), (Some("Drained"), Some("go")));
    assert_eq!(reply, EvacuationResponseStatus::default());
}

#[test]
fn an_accept_binds_but_may_be_repeated() {
    let mut e = asking();
    let (first, _) = give(&mut e, &say(Answer::Accept), 1).unwrap();
    let (again, _) = give(&mut e, &say(Answer::Accept), 2).unwrap();
    assert_eq!(first, again, "a repetition changes nothing");
    for response in [delay(5), say(Answer::Refuse)] {
        let error = give(&mut e, &response, 3).unwrap_err();
        assert_eq!(error, AnswerError::AlreadyAccepted { responder: "self".to_owned() });
        assert!(error.is_conflict());
    }
    e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = ResponderState::Completed;
    give(&mut e, &say(Answer::Accept), 4).unwrap();
    let error = give(&mut e, &delay(5), 4).unwrap_err();
    assert_eq!(error.cause(), "ResponderNotActive");
}

#[test]
fn a_delay_is_granted_from_the_servers_receipt_and_renewed_from_each() {
    let mut e = asking();
    let (r, reply) = give(&mut e, &delay(30), 10).unwrap();
    assert_eq!((r.delay_until, reply.granted_seconds), (Some(at(40).into()), Some(30)));
    assert_eq!((reply.delay_until, reply.message), (Some(at(40).into()), None));
    let (r, _) = give(&mut e, &delay(30), 35).unwrap();
    assert_eq!(r.delay_until, Some(at(65).into()));
    let (r, _) = give(&mut e, &delay(5), 36).unwrap();
    assert_eq!(r.delay_until, Some(at(41).into()), "a renewal may shorten");
}

#[test]
fn a_delay_of_an_endpoint_lasts_long_enough_for_a_reminder_unless_a_bound_ends_it() {
    let mut e = asking_for(vec![deadline(60, DeadlineAction::Evict)]);
    let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
    responder.http = Some(HttpEndpoint { port: 8080, path: None, allow_host_network: None });
    let (r, reply) = give(&mut e, &delay(1), 3).unwrap();
    assert_eq!((r.delay_until, reply.granted_seconds), (Some(at(13).into()), Some(10)));
    let expected = "1 s were asked for; an endpoint gets 10 s, to be reminded in time";
    assert_eq!(reply.message.as_deref(), Some(expected));
    assert_eq!(give(&mut e, &delay(10), 4).unwrap().1.message, None);
    assert_eq!(give(&mut e, &delay(1), 55).unwrap().1.granted_seconds, Some(5), "the deadline");
}

#[test]
fn a_delay_ends_with_the_longest_total_delay() {
    let mut e = asking();
    let (_, reply) = give(&mut e, &delay(7200), 600).unwrap();
    assert_eq!(reply.granted_seconds, Some(3000));
    assert_eq!(
        reply.message.as_deref(),
        Some("7200 s were asked for; the longest total delay of 3600 s allows 3000 s")
    );
    let error = give(&mut e, &delay(1), 3600).unwrap_err();
    assert_eq!(
        error.to_string(),
        "responder self cannot delay any longer: the longest total delay of 3600 s is reached"
    );
    assert!(!error.is_conflict());
}

#[test]
fn the_total_delay_of_an_endpoint_counts_from_the_first_question_that_reached_it() {
    // The controller was away for an hour, or the endpoint was out of reach.
    for asked in [None, Some(at(3600).into())] {
        let mut e = asking();
        let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        responder.http = Some(HttpEndpoint { port: 8080, path: None, allow_host_network: None });
        responder.asked_time = asked;
        let (_, reply) = give(&mut e, &delay(3600), 3600).unwrap();
        assert_eq!((reply.granted_seconds, reply.message), (Some(3600), None), "{asked:?}");
        let (_, reply) = give(&mut e, &delay(3600), 7190).unwrap();
        assert_eq!(reply.granted_seconds, Some(10), "a renewal does not begin anew: {asked:?}");
        assert_eq!(give(&mut e, &delay(10), 7200).unwrap_err().cause(), "DelayExhausted", "{asked:?}");
    }
}

fn deadline(seconds: i64, action: DeadlineAction) -> Requester {
    Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..requester("a.b/r") }
}

#[test]
fn a_delay_ends_with_the_next_deadline_that_evicts_or_deletes() {
    for (action, granted) in
        [(DeadlineAction::Evict, 50), (DeadlineAction::Delete, 50), (DeadlineAction::GiveUp, 100)]
    {
        let mut e = asking_for(vec![deadline(60, action)]);
        let (_, reply) = give(&mut e, &delay(100), 10).unwrap();
        assert_eq!(reply.granted_seconds, Some(granted), "{action:?}");
    }
    let mut e = asking_for(vec![deadline(60, DeadlineAction::Evict)]);
    let error = give(&mut e, &delay(1), 60).unwrap_err();
    assert_eq!(
        error.to_string(),
        "responder self cannot delay any longer: the deadline of requester a.b/r is reached"
    );
}

#[test]
fn a_refusal_may_name_a_time_to_ask_again_and_the_app_may_change_its_mind() {
    let mut e = asking();
    let refuse = EvacuationResponseSpec { retry_after_seconds: Some(600), ..say(Answer::Refuse) };
    let (r, _) = give(&mut e, &refuse, 10).unwrap();
    assert_eq!((r.answer, r.retry_time), (Some(Answer::Refuse), Some(at(610).into())));
    let (r, _) = give(&mut e, &delay(5), 20).unwrap();
    assert_eq!((r.answer, r.retry_time, r.delay_until), (Some(Answer::Delay), None, Some(at(25).into())));
    let (r, _) = give(&mut e, &say(Answer::Refuse), 21).unwrap();
    assert_eq!((r.retry_time, r.delay_until), (None, None));
    give(&mut e, &say(Answer::Accept), 22).unwrap();
}

#[test]
fn an_answer_ends_what_failed_before_it() {
    for given in [Answer::Accept, Answer::Refuse] {
        let mut e = asking();
        give(&mut e, &delay(5), 10).unwrap();
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].failure = Some("500".to_owned());
        assert_eq!(give(&mut e, &say(given), 12).unwrap().0.failure, None, "{given:?}");
    }
}

#[test]
fn an_answer_counts_only_for_the_active_responder_of_the_right_objects() {
    let named =
        |name: &str| EvacuationResponseSpec { responder: Some(name.to_owned()), ..say(Answer::Accept) };
    let mut e = asking();
    assert_eq!(give(&mut e, &named("a.b/c"), 1).unwrap_err().cause(), "NoSuchResponder");
    give(&mut asking(), &named("self"), 1).unwrap();

    let spec = EvacuationResponseSpec { evacuation_uid: Some("evac-0".to_owned()), ..say(Answer::Accept) };
    assert_eq!(
        give(&mut e, &spec, 1).unwrap_err(),
        AnswerError::WrongEvacuation { given: "evac-0".to_owned(), actual: "evac-1".to_owned() }
    );
    let spec = EvacuationResponseSpec { pod_uid: Some("pod-0".to_owned()), ..say(Answer::Accept) };
    assert_eq!(give(&mut e, &spec, 1).unwrap_err().cause(), "WrongPod");
    let spec = EvacuationResponseSpec {
        evacuation_uid: Some("evac-1".to_owned()),
        pod_uid: Some("pod-1".to_owned()),
        ..say(Answer::Accept)
    };
    give(&mut asking(), &spec, 1).unwrap();

    for state in [ResponderState::Inactive, ResponderState::Interrupted, ResponderState::Completed] {
        let mut e = asking();
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = state;
        let error = give(&mut e, &say(Answer::Accept), 1).unwrap_err();
        assert_eq!(error, AnswerError::NotActive { responder: "self".to_owned(), state });
    }
    e.status.as_mut().unwrap().responders = None;
    let error = give(&mut e, &say(Answer::Accept), 1).unwrap_err();
    assert_eq!(
        (error.cause(), error.is_conflict(), error.retry_after_seconds()),
        ("EvacuationNotStarted", true, Some(1))
    );
    e.status.as_mut().unwrap().responders = Some(Vec::new());
    let error = give(&mut e, &say(Answer::Accept), 1).unwrap_err();
    assert_eq!(
        (error.cause(), error.is_conflict(), error.retry_after_seconds()),
        ("NoSuchResponder", false, None)
    );
}

#[test]
fn after_the_end_only_a_canceled_responder_may_acknowledge() {
    let ack = EvacuationResponseSpec { acknowledge_cancellation: true, ..EvacuationResponseSpec::default() };
    let mut e = asking();
    let error = give(&mut e, &ack, 1).unwrap_err();
    assert_eq!(
        error,
        AnswerError::NotCanceled { responder: "self".to_owned(), state: ResponderState::Active }
    );
    e.status = Some(cancel(e.status.as_ref().unwrap(), "the last requester left", at(2)));
    let error = give(&mut e, &say(Answer::Accept), 3).unwrap_err();
    assert_eq!(error, AnswerError::Finished { reason: "Canceled".to_owned() });
    let (r, _) = give(&mut e, &ack, 4).unwrap();
    assert!(r.cancellation_acknowledged);
    give(&mut e, &ack, 5).unwrap();
}

#[test]
fn what_validation_should_have_caught_is_an_error_and_not_a_grant() {
    for response in [EvacuationResponseSpec::default(), say(Answer::Delay), delay(0), delay(-5)] {
        assert_eq!(give(&mut asking(), &response, 1).unwrap_err().cause(), "FieldValueRequired");
    }
    let (_, reply) = give(&mut asking(), &delay(i64::MAX), 0).unwrap();
    assert_eq!(reply.granted_seconds, Some(3600));
}
