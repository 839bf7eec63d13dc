mod rehearsal;

use super::*;
use crate::{
    BudgetState, BudgetView, Delivered, EvictionOutcome, LivePod, NOT_ASKED, Push, Registered, cancel,
    check_status_update, finished_reason,
    policy::policy_at,
    record_eviction,
    testing::{
        RUNNING, asking, asking_for, at, created, evacuation, evacuation_for, requester, responder, world,
    },
};
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, EvacuationStatus, EvictionAction, EvictionStatus, HttpEndpoint,
    RecordedRequester, RefusalPolicy, Requester, ResponderEntry, ResponderState, ResponderStatus,
    ReviewAction,
};

fn budget(name: &str, disruptions_allowed: i32) -> BudgetView {
    BudgetView {
        name: name.to_owned(),
        disruptions_allowed,
        current_healthy: 3,
        desired_healthy: 3,
        state: BudgetState::Counted,
        always_allow_unhealthy: false,
    }
}

/// The status that is written; the server takes it as it is.
#[track_caller]
fn written(evacuation: &Evacuation, world: &World, seconds: i64) -> EvacuationStatus {
    let decision = decide(evacuation, world, at(seconds));
    let [Act::WriteStatus(status)] = &decision.acts[..] else { panic!("no write: {decision:?}") };
    let result = check_status_update(evacuation, (**status).clone(), at(seconds));
    assert_eq!(result.as_ref(), Ok(&**status), "the server makes the same of it");
    result.unwrap()
}

/// Returns the decision once nothing is left to write.
#[track_caller]
fn settled(evacuation: &mut Evacuation, world: &World, seconds: i64) -> Decision {
    for _ in 0..5 {
        let decision = decide(evacuation, world, at(seconds));
        if !matches!(&decision.acts[..], [Act::WriteStatus(_)]) {
            return decision;
        }
        evacuation.status = Some(written(evacuation, world, seconds));
    }
    panic!("the writing does not end: {:?}", evacuation.status);
}

fn states(status: &EvacuationStatus) -> Vec<ResponderState> {
    status.responders.iter().flatten().map(|r| r.state).collect()
}

fn blocked(status: &EvacuationStatus) -> Option<&str> {
    status.true_condition(ConditionType::Blocked).map(|c| c.reason.as_str())
}

fn with_deadline(seconds: i64, action: DeadlineAction) -> Requester {
    Requester { deadline: Some(at(seconds).into()), at_deadline: Some(action), ..requester("a.b/r") }
}

fn first(evacuation: &mut Evacuation) -> &mut ResponderStatus {
    &mut evacuation.status.as_mut().unwrap().responders.as_mut().unwrap()[0]
}

fn say(evacuation: &mut Evacuation, answer: Answer, seconds: i64) {
    let r = first(evacuation);
    r.answer = Some(answer);
    r.answer_time = Some(at(seconds).into());
    r.delay_until = (answer == Answer::Delay).then(|| at(seconds + 30).into());
}

#[test]
fn a_pod_without_responders_goes_straight_to_the_evictor_in_one_write() {
    let status = written(&evacuation(), &world(), 1);
    assert_eq!(status.responders, Some(vec![]));
    assert!(status.eviction.unwrap().in_flight);
}

#[test]
fn silence_and_a_delay_that_ran_out_hand_on_to_the_next() {
    for (answer, lapse, message) in [
        (None, 60, "it was silent for 60 s"),
        (Some(Answer::Delay), 40, "its delay ran out without another answer"),
    ] {
        let mut e = asking();
        if let Some(answer) = answer {
            say(&mut e, answer, 10);
        }
        let early = settled(&mut e, &world(), lapse - 1);
        assert_eq!((early.acts, early.wake_at), (vec![], Some(at(lapse))));
        let status = written(&e, &world(), lapse);
        assert_eq!(states(&status), [ResponderState::Interrupted]);
        assert_eq!(status.responders.as_ref().unwrap()[0].message.as_deref(), Some(message));
        assert!(status.eviction.unwrap().in_flight, "and the attempt is recorded in the same write");
    }
}

#[test]
fn after_an_outage_nothing_lapses_for_thirty_seconds_but_deadlines_act() {
    let recovered = World { recovered_at: Some(at(50)), ..world() };
    let mut e = asking();
    let decision = settled(&mut e, &recovered, 79);
    assert_eq!((decision.acts, decision.wake_at), (vec![], Some(at(80))));
    assert_eq!(states(&written(&e, &recovered, 80)), [ResponderState::Interrupted]);

    let mut e = asking_for(vec![with_deadline(70, DeadlineAction::Evict)]);
    assert_eq!(settled(&mut e, &recovered, 65).wake_at, Some(at(70)));
    assert_eq!(states(&written(&e, &recovered, 70)), [ResponderState::Interrupted]);
}

#[test]
fn an_accept_is_honoured_at_once_with_the_attempt_in_the_same_write() {
    let mut e = asking();
    say(&mut e, Answer::Accept, 3);
    let status = written(&e, &world(), 3);
    assert_eq!(states(&status), [ResponderState::Completed]);
    assert!(status.eviction.unwrap().in_flight);
}

#[test]
fn a_refusal_is_what_the_policy_makes_of_it() {
    let refused = |on_refusal| {
        let mut e = asking_for(vec![Requester { on_refusal: Some(on_refusal), ..requester("a.b/r") }]);
        say(&mut e, Answer::Refuse, 3);
        first(&mut e).reason = Some("Busy".to_owned());
        first(&mut e).message = Some("later, please".to_owned());
        e
    };
    let status = written(&refused(RefusalPolicy::GiveUp), &world(), 4);
    assert_eq!(finished_reason(&status), Some("Refused"));
    assert_eq!(status.conditions[0].message, "responder self refused: Busy: later, please");
    assert_eq!(states(&status), [ResponderState::Canceled]);

    let status = written(&refused(RefusalPolicy::Override), &world(), 4);
    assert_eq!(states(&status), [ResponderState::Completed]);
    assert!(status.eviction.unwrap().in_flight);

    let mut e = refused(RefusalPolicy::Wait);
    let status = written(&e, &world(), 4);
    assert_eq!((states(&status), blocked(&status)), (vec![ResponderState::Active], Some("Refused")));
    let blame = &status.eviction.as_ref().unwrap().blocked_by[0];
    assert_eq!((blame.kind.as_str(), blame.name.as_str()), ("Responder", "self"));
    e.status = Some(status);
    let later = settled(&mut e, &world(), 1_000_000);
    assert_eq!((later.acts, later.wake_at), (vec![], None), "a refusal does not lapse");

    say(&mut e, Answer::Accept, 5);
    let status = written(&e, &world(), 6);
    assert_eq!(blocked(&status), None, "the app changed its mind");
    assert!(status.eviction.unwrap().in_flight);
}

#[test]
fn a_refusal_stands_until_a_deadline_evicts_deletes_or_gives_up() {
    let refused = |action| {
        let mut e = asking_for(vec![with_deadline(60, action)]);
        say(&mut e, Answer::Refuse, 3);
        assert_eq!(settled(&mut e, &world(), 59).wake_at, Some(at(60)));
        e
    };
    let status = written(&refused(DeadlineAction::Evict), &world(), 60);
    let self_ = &status.responders.as_ref().unwrap()[0];
    assert_eq!(self_.message.as_deref(), Some("the deadline of requester a.b/r was reached"));
    assert_eq!((self_.state, blocked(&status)), (ResponderState::Interrupted, None));

    let mut e = refused(DeadlineAction::Evict);
    let recorded = World { attempt: Attempt::Recorded, ..world() };
    assert_eq!(settled(&mut e, &recorded, 60).acts, [Act::Evict { grace_period_seconds: None }]);
    let mut e = refused(DeadlineAction::Delete);
    assert_eq!(settled(&mut e, &recorded, 60).acts, [Act::Delete { grace_period_seconds: None }]);
    e.status = Some(record_eviction(e.status.as_ref().unwrap(), &EvictionOutcome::Accepted, 0.0, at(60)));
    let status = written(&e, &World { pod: PodView::Gone, ..world() }, 62);
    assert_eq!(finished_reason(&status), Some("Deleted"));

    let status = written(&refused(DeadlineAction::GiveUp), &world(), 60);
    assert_eq!(
        (finished_reason(&status), states(&status)),
        (Some("DeadlineGaveUp"), vec![ResponderState::Canceled])
    );
}

#[test]
fn one_entry_that_lapses_leaves_the_others_and_changes_the_policy() {
    let harsh =
        Requester { on_refusal: Some(RefusalPolicy::Override), ..with_deadline(60, DeadlineAction::GiveUp) };
    let mild = Requester { name: "a.b/mild".to_owned(), ..requester("") };
    let mut e = asking_for(vec![harsh, mild]);
    settled(&mut e, &world(), 59);
    say(&mut e, Answer::Delay, 59);
    let status = written(&e, &world(), 60);
    assert_eq!(status.policy.as_ref().unwrap().on_refusal, RefusalPolicy::Wait);
    assert_eq!((states(&status), finished_reason(&status)), (vec![ResponderState::Active], None));
}

#[test]
fn self_is_passed_over_when_no_container_runs_and_others_are_not() {
    let stopped = LivePod { running_container: false, ..RUNNING };
    let entries = vec![ResponderEntry::named("self"), ResponderEntry::named("other.zone/move")];
    let e = created(vec![requester("a.b/r")], &stopped, &entries.into());
    assert_eq!(states(e.status.as_ref().unwrap()), [ResponderState::Inactive, ResponderState::Inactive]);
    let status = written(&e, &World { pod: PodView::Live(stopped), ..world() }, 1);
    assert_eq!(states(&status), [ResponderState::Interrupted, ResponderState::Active]);
    let message = status.responders.as_ref().unwrap()[0].message.clone().unwrap();
    assert!(message.starts_with("it cannot be asked"), "{message}");
}

#[test]
fn an_app_that_was_asked_on_an_unreachable_node_is_passed_over_at_once() {
    let entries = vec![ResponderEntry::named("self"), ResponderEntry::named("other.zone/move")];
    let e = created(vec![requester("a.b/r")], &RUNNING, &entries.into());
    assert_eq!(states(e.status.as_ref().unwrap()), [ResponderState::Active, ResponderState::Inactive]);
    let silent = |since| World { node_silent_since: Some(at(since)), ..world() };
    let status = written(&e, &silent(0), 1);
    assert_eq!(states(&status), [ResponderState::Interrupted, ResponderState::Active]);
    let first = &status.responders.as_ref().unwrap()[0];
    assert_eq!(first.reason.as_deref(), Some("NodeUnreachable"));
    assert_eq!(first.message.as_deref(), Some("it cannot be asked: the pod's node does not answer"));

    let asked_before = decide(&e, &silent(1), at(2));
    assert_eq!(asked_before.wake_at, Some(at(60)), "its timeout runs: the node may come back");
    let mut answered = e.clone();
    say(&mut answered, Answer::Delay, 1);
    assert_eq!(decide(&answered, &silent(0), at(2)).acts, [], "an app that answers is reachable");
}

#[test]
fn an_unreadable_annotation_counts_as_one_self_that_stays_silent() {
    let registered = Registered {
        unreadable: Some("[0]: must be an object".to_owned()),
        ..vec![ResponderEntry::named("self")].into()
    };
    let mut e = created(vec![requester("a.b/r")], &RUNNING, &registered);
    let status = e.status.clone().unwrap();
    assert_eq!(
        (states(&status), blocked(&status)),
        (vec![ResponderState::Active], Some("UnreadableResponders"))
    );
    assert_eq!(status.responders.as_ref().unwrap()[0].timeout_seconds, 60);
    assert_eq!(settled(&mut e, &world(), 59).wake_at, Some(at(60)));
    assert_eq!(blocked(e.status.as_ref().unwrap()), Some("UnreadableResponders"));
    let status = written(&e, &world(), 60);
    assert_eq!((states(&status), blocked(&status)), (vec![ResponderState::Interrupted], None));

    let high = ResponderEntry { priority: Some(20_000), ..ResponderEntry::named("a.b/high") };
    let both = vec![high, ResponderEntry::named("self")];
    let e = created(
        vec![requester("a.b/r")],
        &RUNNING,
        &Registered { unreadable: registered.unreadable, ..both.into() },
    );
    assert_eq!(blocked(e.status.as_ref().unwrap()), None, "self is not asked yet");
    let status = written(&e, &world(), 60);
    assert_eq!(states(&status), [ResponderState::Interrupted, ResponderState::Active]);
    assert_eq!(blocked(&status), Some("UnreadableResponders"));
}

#[test]
fn an_evacuation_whose_responders_were_not_fixed_at_creation_evicts_only_at_a_deadline() {
    let mut e = evacuation_for(vec![with_deadline(60, DeadlineAction::Evict)]);
    e.status.as_mut().unwrap().responders = None;
    let decision = settled(&mut e, &world(), 59);
    assert_eq!((decision.acts, decision.wake_at), (vec![], Some(at(60))));
    assert!(written(&e, &world(), 60).eviction.unwrap().in_flight);
}

#[test]
fn a_pod_that_went_or_ended_ends_the_evacuation_with_the_reason() {
    let mut in_flight = evacuation();
    settled(&mut in_flight, &world(), 1);
    let mut accepted = in_flight.clone();
    accepted.status =
        Some(record_eviction(accepted.status.as_ref().unwrap(), &EvictionOutcome::Accepted, 0.0, at(2)));
    let ended = PodView::Live(LivePod { phase: PodPhase::Terminal, ..RUNNING });
    let table = [
        (&evacuation(), PodView::Gone, Attempt::Unknown, "GoneByOther"),
        (&asking(), PodView::Replaced, Attempt::Unknown, "GoneByOther"),
        (&asking(), ended.clone(), Attempt::Unknown, "TerminatedInPlace"),
        (&in_flight, PodView::Gone, Attempt::Unknown, "Evicted"),
        (&in_flight, PodView::Gone, Attempt::Posted, "Evicted"),
        (&in_flight, PodView::Gone, Attempt::Recorded, "GoneByOther"),
        (&in_flight, ended.clone(), Attempt::Posted, "TerminatedInPlace"),
        (&accepted, PodView::Gone, Attempt::Unknown, "Evicted"),
        (&accepted, ended, Attempt::Unknown, "Evicted"),
    ];
    for (i, (e, pod, attempt, reason)) in table.into_iter().enumerate() {
        let status = written(e, &World { pod, attempt, ..world() }, 5);
        assert_eq!(finished_reason(&status), Some(reason), "row {i}");
        assert!(!status.eviction.unwrap_or_default().in_flight, "row {i}");
    }
}

fn terminating(until: i64) -> PodView {
    PodView::Live(LivePod { terminating_until: Some(at(until)), ..RUNNING })
}

#[test]
fn a_terminating_pod_is_not_asked_and_blocks_when_it_does_not_go() {
    let w = World { pod: terminating(30), ..world() };
    let mut e = evacuation();
    let decision = settled(&mut e, &w, 5);
    assert_eq!((decision.acts, decision.wake_at), (vec![], Some(at(90))));
    assert_eq!(e.status.as_ref().unwrap().eviction, None);
    let status = written(&e, &w, 90);
    assert_eq!(blocked(&status), Some("Terminating"));

    let mut e = asking();
    let decision = settled(&mut e, &w, 61);
    assert_eq!(decision.acts, [], "who was asked before is not interrupted any more");
    let mut e = asking_for(vec![with_deadline(20, DeadlineAction::GiveUp)]);
    settled(&mut e, &w, 25);
    assert_eq!(finished_reason(e.status.as_ref().unwrap()), None, "a pod that goes is not left alone");
}

#[test]
fn the_fence_no_attempt_is_made_that_is_not_recorded_and_known() {
    let mut e = evacuation();
    let decision = decide(&e, &World { attempt: Attempt::Recorded, ..world() }, at(1));
    assert!(matches!(decision.acts[..], [Act::WriteStatus(_)]), "recorded first");

    let recorded = World { attempt: Attempt::Recorded, ..world() };
    assert_eq!(settled(&mut e, &recorded, 1).acts, [Act::Evict { grace_period_seconds: None }]);
    assert_eq!(settled(&mut e, &World { attempt: Attempt::Posted, ..world() }, 1).acts, []);

    let decision = settled(&mut e, &world(), 10);
    assert_eq!((decision.acts, decision.wake_at), (vec![], Some(at(11))), "it may still be under way");
    assert_eq!(settled(&mut e, &world(), 11).acts, [Act::ResolveInFlight]);

    let status = written(&e, &World { pod: terminating(60), ..world() }, 2);
    let eviction = status.eviction.unwrap();
    assert!(eviction.accepted && !eviction.in_flight, "the watch tells what became of it");
    let status = written(&e, &World { pod: terminating(60), ..recorded }, 2);
    let eviction = status.eviction.unwrap();
    assert!(!eviction.accepted && !eviction.in_flight, "another deleted it before the attempt was posted");
}

#[test]
fn the_grace_period_is_the_policys() {
    let mut e = evacuation_for(vec![Requester { grace_period_seconds: Some(7), ..requester("a.b/r") }]);
    let recorded = World { attempt: Attempt::Recorded, ..world() };
    assert_eq!(settled(&mut e, &recorded, 1).acts, [Act::Evict { grace_period_seconds: Some(7) }]);
}

#[test]
#[allow(clippy::too_many_lines)] // One table.
fn an_eviction_waits_for_its_turn_in_the_budgets_queue() {
    let unready = PodView::Live(LivePod { ready: false, ..RUNNING });
    let pending = PodView::Live(LivePod { phase: PodPhase::Pending, ..RUNNING });
    let spare = BudgetView { current_healthy: 3, desired_healthy: 2, ..budget("db", 0) };
    let short = BudgetView { current_healthy: 1, desired_healthy: 2, ..budget("db", 0) };
    let always = BudgetView { always_allow_unhealthy: true, ..short.clone() };
    let two = vec![budget("one", 1), budget("two", 1)];
    let ready = PodView::Live(RUNNING);
    let table = [
        ("no budget", &ready, vec![], false, true, None),
        ("exhausted", &ready, vec![budget("db", 0)], false, false, Some("BudgetExhausted")),
        ("first in the queue", &ready, vec![budget("db", 1)], true, true, None),
        ("others first", &ready, vec![budget("db", 1)], false, false, None),
        ("a probe", &ready, vec![budget("db", 0)], true, true, None),
        ("two budgets", &ready, two.clone(), false, false, Some("MultipleBudgets")),
        ("two budgets, a probe", &ready, two.clone(), true, true, None),
        ("pending", &pending, two.clone(), false, true, None),
        ("unhealthy, a pod to spare", &unready, vec![spare], false, true, None),
        ("unhealthy, none to spare", &unready, vec![short], false, false, Some("BudgetExhausted")),
        ("unhealthy, always allowed", &unready, vec![always], false, true, None),
        ("unhealthy, two budgets", &unready, two, false, false, Some("MultipleBudgets")),
    ];
    for (name, pod, budgets, turn, goes, block) in table {
        let w = World { pod: pod.clone(), budgets: budgets.clone(), turn, ..world() };
        let mut e = evacuation();
        settled(&mut e, &w, 1);
        let status = e.status.unwrap();
        assert_eq!(status.eviction.as_ref().is_some_and(|e| e.in_flight), goes, "{name}");
        assert_eq!(blocked(&status), block, "{name}");
        if block.is_some() {
            let names: Vec<_> = status.eviction.unwrap().blocked_by.into_iter().map(|b| b.name).collect();
            assert_eq!(names, budgets.into_iter().map(|b| b.name).collect::<Vec<_>>(), "{name}");
        }
    }
}

#[test]
fn an_attempt_that_is_due_is_not_recorded_while_the_evictor_is_busy() {
    let busy = World { busy: true, ..world() };
    let held = World { budgets: vec![budget("db", 0)], ..busy.clone() };
    for (name, w, block) in [("no budget", busy, None), ("its budget", held, Some("BudgetExhausted"))] {
        let mut e = evacuation();
        settled(&mut e, &w, 1);
        let status = e.status.clone().unwrap();
        assert!(status.eviction.as_ref().is_none_or(|eviction| !eviction.in_flight), "{name}");
        assert_eq!(blocked(&status), block, "{name}");
        let in_turn = World { turn: true, ..w };
        settled(&mut e, &in_turn, 2);
        let status = e.status.clone().unwrap();
        assert!(status.eviction.as_ref().is_none_or(|eviction| !eviction.in_flight), "{name}: in its turn");
        assert_eq!(blocked(&status), block, "{name}: in its turn");
        let free = World { busy: false, ..in_turn };
        assert!(written(&e, &free, 2).eviction.unwrap().in_flight, "{name}: there is a place");
    }
}

#[test]
fn a_budgets_refusal_counts_until_its_turn_and_any_other_until_its_time() {
    let held = World { budgets: vec![budget("db", 0)], ..world() };
    let turn = World { turn: true, ..held.clone() };
    let refused = |outcome: &EvictionOutcome| {
        let mut e = evacuation();
        settled(&mut e, &turn, 1);
        e.status = Some(record_eviction(e.status.as_ref().unwrap(), outcome, 0.0, at(1)));
        e
    };
    let message = "The disruption budget db needs 3 healthy pods and has 3 currently".to_owned();
    let by_budget = EvictionOutcome::BudgetExhausted {
        retry_after_seconds: None,
        message: message.clone(),
        budgets: vec!["db".to_owned()],
    };
    let mut e = refused(&by_budget);
    assert_eq!(settled(&mut e, &held, 30), Decision::default(), "the queue wakes it");
    let status = e.status.clone().unwrap();
    let condition = status.condition(ConditionType::Blocked).unwrap();
    assert_eq!(condition.message, message, "what the API said stays");
    assert!(written(&e, &turn, 2).eviction.unwrap().in_flight, "its turn comes before nextAttemptTime");
    assert_eq!(
        settled(&mut refused(&by_budget), &world(), 3).wake_at,
        Some(at(6)),
        "no budget is seen: not too often"
    );
    assert!(written(&refused(&by_budget), &world(), 6).eviction.unwrap().in_flight);

    let rejected = EvictionOutcome::Rejected { retry_after_seconds: Some(20), message: "no".to_owned() };
    let mut e = refused(&rejected);
    assert_eq!(settled(&mut e, &turn, 20).wake_at, Some(at(21)));
    assert_eq!(blocked(e.status.as_ref().unwrap()), Some("EvictionRejected"));
    let status = written(&e, &turn, 21);
    assert!(status.eviction.as_ref().unwrap().in_flight);
    assert_eq!(blocked(&status), Some("EvictionRejected"), "until an attempt succeeds");
}

#[test]
fn a_delete_deadline_does_not_wait_for_budgets_or_backoff() {
    let held = World { budgets: vec![budget("db", 0)], ..world() };
    let mut e = evacuation_for(vec![with_deadline(60, DeadlineAction::Delete)]);
    assert_eq!(settled(&mut e, &held, 5).wake_at, Some(at(60)));
    let recorded = World { attempt: Attempt::Recorded, ..held.clone() };
    assert_eq!(settled(&mut e, &recorded, 60).acts, [Act::Delete { grace_period_seconds: None }]);
    let rejected = EvictionOutcome::Rejected { retry_after_seconds: Some(9), message: "no".to_owned() };
    e.status = Some(record_eviction(e.status.as_ref().unwrap(), &rejected, 0.0, at(60)));
    assert_eq!(settled(&mut e, &recorded, 61).wake_at, Some(at(69)), "a refused deletion backs off");
}

#[test]
fn an_accepted_eviction_of_which_nothing_is_seen_blocks_after_a_minute() {
    let mut e = evacuation();
    settled(&mut e, &world(), 1);
    e.status = Some(record_eviction(e.status.as_ref().unwrap(), &EvictionOutcome::Accepted, 0.0, at(2)));
    assert_eq!(settled(&mut e, &world(), 3), Decision { acts: vec![], wake_at: Some(at(61)) });
    assert_eq!(blocked(&written(&e, &world(), 61)), Some("Terminating"));
}

/// Returns the world in which that question was delivered.
fn delivered(asked: Delivered) -> World {
    World { asked: Some(asked), ..world() }
}

/// Returns the delivery of a question when it was due.
fn at_once(question: Push) -> Delivered {
    let reached = Some(question.due);
    Delivered { question, reached, unreached: None, sent: None, replied: false, problem: None }
}

fn pushed(mut evacuation: Evacuation) -> Evacuation {
    first(&mut evacuation).http = Some(HttpEndpoint { port: 8080, path: None, allow_host_network: None });
    evacuation.status.as_mut().unwrap().observed_generation = Some(1);
    evacuation
}

#[test]
fn rule_9_the_silence_of_an_endpoint_counts_from_the_first_delivered_question() {
    let mut e = pushed(asking());
    // No controller ran for an hour: nobody delivered the question.
    let decision = settled(&mut e, &world(), 3600);
    let ask = Push { responder: "self".to_owned(), action: ReviewAction::Ask, due: at(0) };
    assert_eq!(decision, Decision { acts: vec![Act::Push(ask)], wake_at: None });
    let delivered = |responder: &str, problem: Option<&str>| {
        let question = Push { responder: responder.to_owned(), action: ReviewAction::Ask, due: at(0) };
        delivered(Delivered { problem: problem.map(str::to_owned), ..at_once(question) })
    };
    let other = delivered("a.b/c", None);
    assert_eq!(settled(&mut e, &other, 3600), decision, "another responder was asked");

    let asked = delivered("self", None);
    let decision = settled(&mut e, &asked, 3600);
    assert_eq!(first(&mut e).asked_time, Some(at(3600).into()));
    assert_eq!(decision.wake_at, Some(at(3660)));
    assert_eq!(settled(&mut e, &asked, 3659).wake_at, Some(at(3660)), "it is recorded once");
    assert_eq!(states(&written(&e, &asked, 3660)), [ResponderState::Interrupted]);

    settled(&mut e, &delivered("self", Some("its reply does not count: 500")), 3650);
    assert_eq!(first(&mut e).message.as_deref(), Some("its reply does not count: 500"));
    settled(&mut e, &asked, 3651);
    assert_eq!(first(&mut e).message.as_deref(), Some("its reply does not count: 500"), "the last one");
    let passed_over = written(&e, &asked, 3660).responders.unwrap().remove(0).message;
    let expected = "it gave no valid answer in 60 s: its reply does not count: 500";
    assert_eq!(passed_over.as_deref(), Some(expected));
}

#[test]
fn rule_9_an_endpoint_out_of_reach_is_not_silent_and_has_its_whole_time_once_a_question_reaches_it() {
    let ask = Push { responder: "self".to_owned(), action: ReviewAction::Ask, due: at(0) };
    let refused = || {
        let problem = Some(format!("{NOT_ASKED}connection refused"));
        delivered(Delivered { reached: None, unreached: Some(at(5)), problem, ..at_once(ask.clone()) })
    };
    let mut e = pushed(asking());
    assert_eq!(settled(&mut e, &refused(), 5).wake_at, Some(at(65)));
    assert_eq!((first(&mut e).unreachable_time, first(&mut e).asked_time), (Some(at(5).into()), None));
    let mut passed_over = e.clone();
    assert_eq!(states(&written(&passed_over, &refused(), 65)), [ResponderState::Interrupted]);
    settled(&mut passed_over, &refused(), 65);
    let expected = "it could not be reached for 60 s: connection refused";
    assert_eq!(first(&mut passed_over).message.as_deref(), Some(expected));

    let mut taken = refused();
    taken.asked.as_mut().unwrap().sent = Some(at(64));
    assert_eq!(settled(&mut e, &taken, 65).wake_at, Some(at(124)), "it has the question in hand");
    assert_eq!(first(&mut e).asked_time, None, "it could break that off");
    assert_eq!(settled(&mut e, &delivered(at_once(ask.clone())), 64).wake_at, Some(at(124)));
    assert_eq!(first(&mut e).asked_time, Some(at(64).into()));
    assert_eq!(first(&mut e).message, None, "nothing keeps the question from it any more");
    settled(&mut e, &refused(), 100);
    assert_eq!(first(&mut e).asked_time, Some(at(64).into()), "it had the question");
    assert_eq!(states(&written(&e, &refused(), 124)), [ResponderState::Interrupted]);
}

#[test]
fn a_new_leader_that_does_not_reach_an_endpoint_writes_nothing_about_one_that_was_asked() {
    let ask = Push { responder: "self".to_owned(), action: ReviewAction::Ask, due: at(0) };
    let mut e = pushed(asking());
    settled(&mut e, &delivered(at_once(ask.clone())), 5);
    let unreached = Delivered { reached: None, unreached: Some(at(20)), ..at_once(ask.clone()) };
    let decision = decide(&e, &delivered(unreached), at(20));
    assert_eq!(decision, Decision { acts: vec![Act::Push(ask)], wake_at: Some(at(65)) });
}

#[test]
fn rule_9_a_new_leader_asks_an_endpoint_itself_before_it_passes_it_over() {
    let ask = Push { responder: "self".to_owned(), action: ReviewAction::Ask, due: at(0) };
    let pushes = [Act::Push(ask.clone())];
    let unanswered = |sent: Option<i64>, reached: Option<i64>, unreached: Option<i64>| {
        let (sent, reached, unreached) = (sent.map(at), reached.map(at), unreached.map(at));
        delivered(Delivered { reached, unreached, sent, ..at_once(ask.clone()) })
    };
    // The old leader recorded that the question was delivered, or that it could not be.
    let (mut asked, mut out_of_reach) = (pushed(asking()), pushed(asking()));
    settled(&mut asked, &unanswered(None, Some(0), None), 5);
    settled(&mut out_of_reach, &unanswered(None, None, Some(0)), 5);
    for e in [&asked, &out_of_reach] {
        let untried = Decision { acts: pushes.to_vec(), wake_at: None };
        assert_eq!(decide(e, &world(), at(70)), untried, "an answer may have ended with the old leader");
    }
    let table = [
        (&asked, unanswered(Some(71), None, None), 81, "one exchange"),
        (&asked, unanswered(Some(71), Some(72), None), 82, "one exchange"),
        (&asked, unanswered(None, None, Some(71)), 81, "as much"),
        (&out_of_reach, unanswered(None, None, Some(71)), 131, "its whole time"),
        (&out_of_reach, unanswered(Some(80), None, Some(71)), 140, "its whole time"),
    ];
    for (e, tried, end, what) in table {
        let decision = Decision { acts: pushes.to_vec(), wake_at: Some(at(end)) };
        assert_eq!(decide(e, &tried, at(80)), decision, "{what}");
        assert_eq!(states(&written(e, &tried, end)), [ResponderState::Interrupted], "{what}");
    }
}

#[test]
fn rule_9_a_deadline_acts_although_the_question_was_never_delivered() {
    let e = pushed(asking_for(vec![with_deadline(70, DeadlineAction::Evict)]));
    assert_eq!(states(&written(&e, &world(), 70)), [ResponderState::Interrupted]);
}

#[test]
fn an_endpoint_is_asked_once_and_reminded_in_time() {
    let reminded = |due| {
        let (responder, action) = ("self".to_owned(), ReviewAction::Remind);
        delivered(at_once(Push { responder, action, due: at(due) }))
    };
    let push = |action, due| vec![Act::Push(Push { responder: "self".to_owned(), action, due: at(due) })];
    let mut e = pushed(asking());
    assert_eq!(settled(&mut e, &world(), 1).acts, push(ReviewAction::Ask, 0));
    say(&mut e, Answer::Delay, 10);
    let decision = settled(&mut e, &world(), 29);
    assert_eq!((decision.acts, decision.wake_at), (vec![], Some(at(30))));
    let decision = settled(&mut e, &reminded(30), 30);
    assert_eq!((decision.acts, decision.wake_at), (push(ReviewAction::Remind, 30), Some(at(40))));

    say(&mut e, Answer::Refuse, 31);
    first(&mut e).retry_time = Some(at(100).into());
    assert_eq!(settled(&mut e, &world(), 40).wake_at, Some(at(100)));
    assert_eq!(settled(&mut e, &world(), 100).acts, push(ReviewAction::Remind, 100));
    first(&mut e).retry_time = None;
    assert_eq!(settled(&mut e, &world(), 90).wake_at, Some(at(91)), "it cannot speak by itself");
    assert_eq!(settled(&mut e, &world(), 91).acts, push(ReviewAction::Remind, 91));
    assert_eq!(settled(&mut asking(), &world(), 1).acts, [], "who watches is not pushed to");
}

#[test]
fn a_requester_that_joins_after_the_refusal_of_an_endpoint_is_a_new_question() {
    let mut e = pushed(asking());
    say(&mut e, Answer::Refuse, 10);
    let joins = |e: &mut Evacuation, joined: i64, left: Option<i64>| {
        let known = &mut e.status.as_mut().unwrap().requesters;
        let (joined_time, left_time) = (Some(at(joined).into()), left.map(|time| at(time).into()));
        known.push(RecordedRequester { joined_time, left_time, ..known[0].clone() });
    };
    let due = |e: &mut Evacuation| settled(e, &world(), 11).wake_at;
    joins(&mut e, 9, None);
    joins(&mut e, 20, Some(22));
    assert_eq!(due(&mut e), Some(at(70)), "one of those who were refused, and one that left");
    joins(&mut e, 60, None);
    joins(&mut e, 50, None);
    assert_eq!(due(&mut e), Some(at(60)), "the first of those who came later");
    joins(&mut e, 49, None);
    joins(&mut e, 41, None);
    assert_eq!(due(&mut e), Some(at(50)));
    e.status.as_mut().unwrap().requesters.last_mut().unwrap().left_time = Some(at(45).into());
    assert_eq!(due(&mut e), Some(at(50)), "who comes and goes does not move the question");
    joins(&mut e, 11, None);
    assert_eq!(due(&mut e), Some(at(20)));
    let push = Push { responder: "self".to_owned(), action: ReviewAction::Remind, due: at(20) };
    assert_eq!(settled(&mut e, &world(), 20).acts, [Act::Push(push)]);
    first(&mut e).retry_time = Some(at(100).into());
    assert_eq!(due(&mut e), Some(at(100)), "the endpoint named the time");
}

#[test]
fn rule_11_a_delay_ends_after_the_time_for_an_answer_to_its_reminder() {
    let reminder = Push { responder: "self".to_owned(), action: ReviewAction::Remind, due: at(30) };
    let mut e = pushed(asking());
    first(&mut e).max_delay_seconds = 100;
    say(&mut e, Answer::Delay, 10);
    let unasked = settled(&mut e, &world(), 41);
    assert_eq!(unasked.acts, [Act::Push(reminder.clone())], "it is over, and the app does not know");
    assert_eq!(unasked.wake_at, Some(at(110)), "nobody can be asked for ever");
    assert_eq!(states(&written(&e, &world(), 110)), [ResponderState::Interrupted]);
    let very_late = delivered(Delivered { sent: Some(at(105)), reached: None, ..at_once(reminder.clone()) });
    assert_eq!(settled(&mut e, &very_late, 105).wake_at, Some(at(110)), "up to the longest delay, and 10 s");

    assert_eq!(settled(&mut e, &world(), 109).wake_at, Some(at(110)));
    let late = delivered(Delivered { reached: Some(at(45)), ..at_once(reminder.clone()) });
    assert_eq!(settled(&mut e, &late, 50).wake_at, Some(at(55)), "10 s, as after a reminder in time");
    assert_eq!(states(&written(&e, &late, 55)), [ResponderState::Interrupted]);
    let of_another_delay = delivered(at_once(Push { due: at(29), ..reminder.clone() }));
    assert_eq!(settled(&mut e, &of_another_delay, 41).wake_at, Some(at(110)));

    let with_a_reply = delivered(Delivered { replied: true, ..at_once(reminder) });
    assert_eq!(settled(&mut e, &with_a_reply, 109).wake_at, None, "its reply is in our hands");
    let mut e = pushed(asking_for(vec![with_deadline(70, DeadlineAction::Evict)]));
    say(&mut e, Answer::Delay, 10);
    assert_eq!(settled(&mut e, &world(), 41).wake_at, Some(at(70)));
    assert_eq!(states(&written(&e, &with_a_reply, 70)), [ResponderState::Interrupted], "a deadline acts");
}

#[test]
fn rule_11_a_short_delay_leaves_the_time_of_an_exchange_to_answer_its_reminder() {
    let mut e = pushed(asking());
    say(&mut e, Answer::Delay, 10);
    for (seconds, due, end) in [(12, 18, 28), (27, 28, 38), (30, 30, 40), (60, 50, 70)] {
        first(&mut e).delay_until = Some(at(10 + seconds).into());
        let reminder = Push { responder: "self".to_owned(), action: ReviewAction::Remind, due: at(due) };
        let told = delivered(at_once(reminder));
        assert_eq!(settled(&mut e, &told, end - 1).wake_at, Some(at(end)), "{seconds}");
        assert_eq!(states(&written(&e, &told, end)), [ResponderState::Interrupted], "{seconds}");
    }
}

#[test]
fn the_reply_to_a_reminder_that_does_not_count_is_named_when_the_delay_is_over() {
    let mut e = pushed(asking());
    say(&mut e, Answer::Delay, 10);
    let push = |action, due| Push { responder: "self".to_owned(), action, due: at(due) };
    let (ask, remind) = (push(ReviewAction::Ask, 0), push(ReviewAction::Remind, 30));
    for (asked, expected) in [
        (remind, "its delay ran out without a valid renewal: it replied 500"),
        (ask, "its delay ran out without another answer"),
    ] {
        let problem = Some("it replied 500".to_owned());
        let asked = delivered(Delivered { problem, ..at_once(asked) });
        // Late enough for both: nobody reminded the endpoint after the first question.
        let status = written(&e, &asked, 4000);
        let passed = &status.responders.as_ref().unwrap()[0];
        assert_eq!(passed.message.as_deref(), Some(expected));
    }
}

#[test]
fn a_reminder_that_fails_is_named_beside_the_words_of_the_app_until_it_answers() {
    for (answer, due) in [(Answer::Delay, 30), (Answer::Refuse, 70)] {
        let mut e = pushed(asking());
        say(&mut e, answer, 10);
        first(&mut e).message = Some("a backup runs".to_owned());
        let failing = |action, due: i64, failure: &str| {
            let question = Push { responder: "self".to_owned(), action, due: at(due) };
            delivered(Delivered { problem: Some(failure.to_owned()), ..at_once(question) })
        };
        let failure = |e: &mut Evacuation, world: &World| {
            settled(e, world, due + 1);
            assert_eq!(first(e).message.as_deref(), Some("a backup runs"));
            first(e).failure.clone()
        };
        let told = |failure: &str| Some(failure.to_owned());
        let remind = ReviewAction::Remind;
        for other in [failing(ReviewAction::Ask, 0, "500"), failing(remind, due - 1, "500")] {
            assert_eq!(failure(&mut e, &other), None, "{answer:?}: of another question");
        }
        assert_eq!(failure(&mut e, &failing(remind, due, "500")), told("500"));
        assert_eq!(failure(&mut e, &failing(remind, due, "502")), told("502"));
        assert_eq!(failure(&mut e, &world()), told("502"), "another process leads");
        if answer == Answer::Delay {
            let ended = written(&e, &world(), 4000).responders.unwrap().remove(0).message;
            assert_eq!(ended.as_deref(), Some("its delay ran out without a valid renewal: 502"));
        }
        say(&mut e, answer, due + 1);
        first(&mut e).failure = None;
        assert_eq!(failure(&mut e, &failing(remind, due, "502")), None, "it has answered");
    }
}

#[test]
fn rule_11_a_reply_in_hand_is_no_silence() {
    let ask = Push { responder: "self".to_owned(), action: ReviewAction::Ask, due: at(0) };
    let mut e = pushed(asking());
    let asked = at_once(ask);
    settled(&mut e, &delivered(asked.clone()), 1);
    let replied = delivered(Delivered { replied: true, ..asked.clone() });
    assert_eq!(settled(&mut e, &replied, 90).wake_at, None);
    assert_eq!(states(&written(&e, &delivered(asked), 90)), [ResponderState::Interrupted]);
}

#[test]
fn the_end_is_told_to_endpoints_until_acknowledged_and_then_the_finalizer_goes() {
    let mut e = pushed(asking());
    e.status = Some(cancel(e.status.as_ref().unwrap(), "the evacuation was deleted", at(10)));
    e.metadata.deletion_timestamp = Some(evacuation_api::condition_time(at(10)));
    e.metadata.finalizers = Some(vec![evacuation_api::CANCELLATION_FINALIZER.to_owned()]);
    let cancel = Act::Push(Push { responder: "self".to_owned(), action: ReviewAction::Cancel, due: at(10) });
    let telling = Decision { acts: vec![cancel], wake_at: Some(at(40)) };
    assert_eq!(decide(&e, &world(), at(11)), telling);
    assert_eq!(decide(&e, &World { pod: PodView::Gone, ..world() }, at(11)).acts, [], "nobody is there");
    assert_eq!(decide(&e, &world(), at(40)).acts, [Act::ReleaseFinalizer]);
    let after_an_outage = World { recovered_at: Some(at(35)), ..world() };
    assert_eq!(
        decide(&e, &after_an_outage, at(40)).wake_at,
        Some(at(65)),
        "who could not be told has its time after the outage"
    );
    let mut withdrawn = e.clone();
    withdrawn.metadata.deletion_timestamp = None;
    assert_eq!(
        decide(&withdrawn, &world(), at(3000)).acts,
        telling.acts,
        "nothing hurries an object that stays"
    );
    first(&mut e).cancellation_acknowledged = true;
    assert_eq!(decide(&e, &world(), at(11)).acts, [Act::ReleaseFinalizer]);
    e.metadata.finalizers = Some(vec!["other".to_owned()]);
    assert_eq!(decide(&e, &world(), at(11)), Decision::default());
}

#[test]
fn a_finished_evacuation_is_removed_when_its_time_to_live_is_over() {
    let mut e = evacuation();
    settled(&mut e, &World { pod: PodView::Gone, ..world() }, 10);
    assert_eq!(decide(&e, &world(), at(3609)), Decision { acts: vec![], wake_at: Some(at(3610)) });
    assert_eq!(decide(&e, &world(), at(3610)).acts, [Act::Remove]);
    e.spec.ttl_seconds_after_finished = Some(0);
    assert_eq!(decide(&e, &world(), at(10)).acts, [Act::Remove]);
}

#[test]
fn a_record_of_calls_that_were_given_up_is_kept_for_five_minutes_and_that_of_a_user_for_its_own_time() {
    let kept = |user: &str, end: &str| {
        let mut e = evacuation();
        let status = e.status.as_mut().unwrap();
        *status = cancel(status, end, at(10));
        for known in &mut status.requesters {
            known.user = user.to_owned();
        }
        decide(&e, &world(), at(11)).wake_at
    };
    let owner = evacuation().status.unwrap().requesters[0].owner.clone();
    assert_eq!(kept(&owner, "left"), Some(at(3610)));
    assert_eq!(kept("the gateway", "left"), Some(at(310)));
    let mut gone = evacuation();
    gone.status.as_mut().unwrap().requesters[0].user = "the gateway".to_owned();
    settled(&mut gone, &World { pod: PodView::Gone, ..world() }, 10);
    assert_eq!(decide(&gone, &world(), at(11)).wake_at, Some(at(3610)), "the pod moved");
}

#[test]
fn a_refusal_under_override_hands_on_to_the_next_responder() {
    let mut e =
        asking_for(vec![Requester { on_refusal: Some(RefusalPolicy::Override), ..requester("a.b/r") }]);
    let next = responder("a.b/next", ResponderState::Inactive);
    e.status.as_mut().unwrap().responders.as_mut().unwrap().push(next);
    say(&mut e, Answer::Refuse, 3);
    let status = written(&e, &world(), 3);
    assert_eq!(states(&status), [ResponderState::Completed, ResponderState::Active]);
    assert_eq!(status.eviction, None);
}

#[test]
fn an_eviction_stays_one_although_a_deletion_was_due_before_it_by_a_later_entry() {
    let mut e = evacuation_for(vec![with_deadline(60, DeadlineAction::Delete)]);
    e.status.as_mut().unwrap().eviction = Some(EvictionStatus {
        attempts: 1,
        action: Some(EvictionAction::Evict),
        last_attempt_time: Some(at(90).into()),
        next_attempt_time: Some(at(500).into()),
        ..EvictionStatus::default()
    });
    let policy = policy_at(&e.spec.requesters, e.status.as_ref().unwrap(), at(100));
    assert!(!crate::eviction::is_deletion(&policy, e.status.as_ref().unwrap().eviction.as_ref().unwrap()));
}
