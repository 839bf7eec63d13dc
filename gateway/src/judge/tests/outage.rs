//! Calls in an outage.

use evacuation_protocol::OutageCause::{self, Api, Leaderless};

use super::*;

const TAINT: &str = "system:serviceaccount:kube-system:node-controller";

/// Returns an outage that began so many seconds ago.
fn outage(cause: OutageCause, seconds: i64) -> Outage {
    Outage { cause, since: now() - TimeDelta::seconds(seconds) }
}

/// Returns an eviction by Alice, who has an entry with its deadline so many seconds from now, in an outage.
fn eviction(entry: i64, status: &Value, outage: Outage) -> Case {
    Case { active: Some(evacuation(&entry_until(entry), status)), outage: Some(outage), ..evict() }
}

fn delayed(until: i64) -> Value {
    responder("Active", &json!({"answer": "Delay", "answerTime": at(-60), "delayUntil": at(until)}))
}

fn refused() -> Value {
    responder("Active", &json!({"answer": "Refuse", "answerTime": at(-60)}))
}

/// Returns the word for what happens to the call.
fn outcome(case: &Case) -> &'static str {
    match case.judge() {
        Verdict::Pass(pass) => pass.as_str(),
        Verdict::Open(way) => way.as_str(),
        Verdict::Wait(reply) if reply.is_held() => "held",
        Verdict::Wait(_) => "wait",
        Verdict::Ask { .. } => "ask",
        Verdict::Count { .. } => "count",
        Verdict::Look => "look",
    }
}

#[test]
fn rule_11_an_answer_holds_in_an_outage_whatever_the_entry_and_up_to_the_bound() {
    let table = vec![
        (eviction(50, &delayed(300), outage(Api, 10)), "held"),
        (eviction(30, &delayed(300), outage(Api, 10)), "held"),
        (eviction(-5, &delayed(300), outage(Api, 10)), "held"),
        (eviction(50, &delayed(300), outage(Api, 900)), "hold_ended"),
        (eviction(50, &delayed(0), outage(Api, 10)), "unanswered_api_down"),
        (eviction(50, &refused(), outage(Api, 899)), "held"),
        (eviction(50, &refused(), outage(Api, 900)), "hold_ended"),
        (eviction(50, &asking(), outage(Api, 10)), "unanswered_api_down"),
        (eviction(50, &done(), outage(Api, 10)), "responders_done"),
        (eviction(50, &delayed(300), outage(Leaderless, 40)), "wait"),
        (eviction(30, &delayed(300), outage(Leaderless, 40)), "ask"),
        (eviction(50, &delayed(300), outage(Leaderless, 900)), "hold_ended"),
        // The question was made 5 s ago.
        (eviction(50, &asking(), outage(Leaderless, 40)), "wait"),
    ];
    for (case, expected) in table {
        assert_eq!(outcome(&case), expected, "{:?} {:?}", case.outage, case.active);
    }
}

/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk, and then an outage of the API
/// - Act: leaves an Evacuation in the store that the server cannot decode, so that no cache has its answer
/// - Promise: 8, 11
#[test]
fn rule_11_an_unreadable_evacuation_holds_its_pod_while_the_api_is_away_up_to_the_bound() {
    let unreadable = |outage| Case { unreadable: Some("db-0-x"), outage, ..evict() };
    let reply = unreadable(Some(outage(Api, 899))).waits();
    assert_eq!((reply.code, reply.cause), (429, "EvacuationUnreadable"));
    for part in [
        "evacuation db-0-x, which cannot be read",
        "the evacuation API does not answer",
        "waits until 2026-11-20T12:00:01Z at the latest",
    ] {
        assert!(reply.message.contains(part), "{part:?} is not in {}", reply.message);
    }
    assert_eq!(outcome(&unreadable(Some(outage(Api, 900)))), "unreadable");
    for without in [None, Some(outage(Leaderless, 40))] {
        assert_eq!(outcome(&unreadable(without)), "ask", "the API says whether it can be read by now");
    }
    let taint = Case { unreadable: Some("db-0-x"), ..case(TAINT, Operation::Delete) };
    assert_eq!(outcome(&Case { outage: Some(outage(Leaderless, 40)), ..taint }), "ask");
    let known = Case { active: Some(evacuation(&json!([]), &asking())), ..unreadable(Some(outage(Api, 10))) };
    assert_eq!(outcome(&known), "unanswered_api_down", "it can be read again, and nobody has answered");
    let unregistered = Case { registered: false, ..unreadable(Some(outage(Api, 10))) };
    assert_eq!(outcome(&unregistered), "unregistered", "as while the API answers");
}

#[test]
fn a_held_caller_reads_the_answer_the_outage_and_the_bound() {
    let reply = eviction(50, &delayed(300), outage(Api, 10)).waits();
    assert!(reply.is_held() && reply.code == 429, "{reply:?}");
    for part in [
        "responder self asked for time",
        "the evacuation API does not answer",
        "holds until 2026-11-20T12:05:00Z",
    ] {
        assert!(reply.message.contains(part), "{part:?} is not in {}", reply.message);
    }
}

#[test]
fn an_app_that_was_not_asked_is_asked_unless_nobody_could_act_for_a_caller_that_does_not_come_back() {
    let taint = |outage| Case { outage, ..case(TAINT, Operation::Delete) };
    assert_eq!(outcome(&Case { outage: Some(outage(Api, 10)), ..evict() }), "ask", "the API may be back");
    assert_eq!(outcome(&Case { outage: Some(outage(Leaderless, 40)), ..evict() }), "ask");
    assert_eq!(outcome(&taint(Some(outage(Leaderless, 40)))), "no_controller");
    assert_eq!(outcome(&taint(None)), "ask");
    let with = |status: &Value| Case {
        active: Some(evacuation(&entry_until(50), status)),
        ..taint(Some(outage(Leaderless, 40)))
    };
    assert_eq!(outcome(&with(&asking())), "unanswered_no_controller");
    assert_eq!(
        outcome(&with(&delayed(300))),
        "ask",
        "the answer holds, and the entry waits for a controller"
    );
}

#[test]
fn a_fresh_refusal_holds_in_an_outage_and_a_pod_that_is_gone_stays_gone() {
    let refused = |seconds| Case {
        last: Some(evacuation(&json!([]), &ended("Failed", "Refused", -10))),
        outage: Some(outage(Api, seconds)),
        ..evict()
    };
    assert_eq!((outcome(&refused(10)), outcome(&refused(900))), ("wait", "hold_ended"));
}

#[test]
fn a_deletion_that_nobody_evicts_in_the_budgets_turn_is_counted_at_each_try_until_its_patience_is_over() {
    for (ago, expected) in [(1799, "count"), (1800, "blocked_too_long")] {
        let mut case = counted();
        case.outage = Some(outage(Leaderless, ago));
        case.active = Some(evacuation(&json!([]), &json!({"responders": []})));
        assert_eq!(outcome(&case), expected, "{ago}");
    }
    // The time that another reason took, and that another requester waited, is not the budget's.
    for (joined, reason, budget, ago, expected) in [
        (3600, "EvictionRejected", None, 60, "count"),
        (3600, "EvictionRejected", None, 1800, "blocked_too_long"),
        (3600, "BudgetExhausted", Some(1799), 60, "count"),
        (3600, "BudgetExhausted", Some(1800), 60, "blocked_too_long"),
        (1799, "BudgetExhausted", Some(3600), 60, "count"),
    ] {
        let case = Case { outage: Some(outage(Leaderless, ago)), ..held_back(joined, reason, budget) };
        assert_eq!(outcome(&case), expected, "{joined} {reason} {budget:?} {ago}");
    }
}

/// The controller, which would record that the entry has expired, is away.
#[test]
fn a_counted_deletion_whose_entry_expired_in_an_outage_waits_as_one_without_and_gets_a_new_entry() {
    let expired = |outage_seconds| {
        let mut case = held_back(3600, "BudgetExhausted", Some(3600));
        case.active.as_mut().unwrap().spec.requesters[1].deadline = Some(now().into());
        Case { outage: Some(outage(Leaderless, outage_seconds)), ..case }
    };
    let Verdict::Count { expired_in, .. } = expired(1799).judge() else {
        panic!("{:?}", expired(1799).judge())
    };
    assert_eq!(expired_in, expired(1799).active.unwrap().metadata.name);
    assert_eq!(expired(1800).passes(), Some(Pass::BlockedTooLong));
}

#[test]
fn a_deadline_that_is_reached_in_an_outage_lets_calls_pass_and_says_that_nobody_could_record_it() {
    let with = |answer: &Value, on_refusal: &str, seconds: i64, action: &str| {
        let mut status = answer.clone();
        let deadline = json!({"time": at(seconds), "action": action, "owner": "drain", "requester": "a.b/c"});
        status["policy"] = json!({"onRefusal": on_refusal, "deadlines": [deadline]});
        eviction(50, &status, outage(Api, 10))
    };
    let table = vec![
        (with(&delayed(300), "Wait", -1, "Evict"), "unrecorded"),
        (with(&refused(), "Wait", -1, "Delete"), "unrecorded"),
        (with(&refused(), "Override", 60, "Evict"), "unrecorded"),
        (with(&delayed(300), "Wait", 1, "Evict"), "held"),
        (with(&delayed(300), "Wait", -1, "GiveUp"), "held"),
    ];
    for (case, expected) in table {
        assert_eq!(outcome(&case), expected, "{:?}", case.active);
    }
    assert_eq!(WayOut::Unrecorded(Api).event(), "PassedUnrecorded");
}
