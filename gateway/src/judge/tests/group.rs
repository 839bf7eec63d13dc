//! Calls for pods of a PodGroup that are disrupted together.

use std::sync::Arc;

use evacuation_protocol::OutageCause;

use super::*;

/// Returns a running pod of the group.
fn mate(name: &str, active: Option<Value>, last: Option<Value>) -> Mate {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": at(-500)},
        "spec": {"nodeName": "node-b", "containers": []},
        "status": {"phase": "Running"},
    });
    let read = |value| Arc::new(serde_json::from_value(value).unwrap());
    Mate {
        pod: Arc::new(serde_json::from_value(pod).unwrap()),
        active: active.map(read),
        last: last.map(read),
    }
}

/// Returns an Evacuation of that pod, made 60 s ago, whose app is asked or gave that answer.
fn evacuation(pod: &str, answer: Option<&str>, conditions: &Value) -> Value {
    let until = (answer == Some("Delay")).then(|| at(300));
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "state": "Active",
        "activeTime": at(-60), "answer": answer, "answerTime": answer.map(|_| at(-50)), "delayUntil": until,
    });
    let finished = conditions.as_array().is_some_and(|all| !all.is_empty()).then(|| at(-10));
    json!({
        "metadata": {"name": format!("{pod}-x"), "namespace": "shop", "creationTimestamp": at(-60)},
        "spec": {
            "target": {"pod": {"name": pod, "uid": pod}},
            "requesters": [{"owner": "alice", "name": "gateway.evacuation.dev/eviction", "onRefusal": "Wait",
                "deadline": at(60), "atDeadline": "GiveUp"}],
        },
        "status": {
            "responders": [responder], "conditions": conditions, "finishTime": finished,
            "policy": {"onRefusal": "Wait", "deadlines": []},
        },
    })
}

fn asking(pod: &str, answer: Option<&str>) -> Value {
    evacuation(pod, answer, &json!([]))
}

fn refused(pod: &str) -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Refused", "message": "responder self refused: busy",
            "lastTransitionTime": at(-10)})
    };
    evacuation(pod, Some("Refuse"), &json!([condition("Failed"), condition("Finished")]))
}

/// Returns an eviction of a pod whose app has accepted, beside that pod of its group.
fn accepted(beside: Mate) -> Case {
    answered(Some("Accept"), beside)
}

/// Returns an eviction of a pod whose app gave that answer, beside that pod of its group.
fn answered(answer: Option<&str>, beside: Mate) -> Case {
    let mut active: Evacuation = serde_json::from_value(asking("db-0", answer)).unwrap();
    active.spec.target.pod.uid = Some("pod-1".to_owned());
    Case { active: Some(active), group: vec![beside], ..evict() }
}

/// # Attack
///
/// - Attacker: a drain, or a scheduler that preempts
/// - Act: evicts the first member of a gang whose app accepts, while another asks for time
/// - Promise: 11
#[test]
fn no_call_for_a_member_passes_before_every_member_is_done() {
    for (beside, passes) in [
        (mate("db-1", None, None), false),
        (mate("db-1", Some(asking("db-1", None)), None), false),
        (mate("db-1", Some(asking("db-1", Some("Delay"))), None), false),
        (mate("db-1", Some(asking("db-1", Some("Refuse"))), None), false),
        (mate("db-1", None, Some(refused("db-1"))), false),
        (mate("db-1", Some(asking("db-1", Some("Accept"))), None), true),
    ] {
        let words = format!("{beside:?}");
        let passed = accepted(beside).passes();
        assert_eq!(passed, passes.then_some(Pass::RespondersDone), "{words}");
    }
}

#[test]
fn a_member_holds_neither_the_owner_of_a_pod_nor_a_call_after_a_deadline() {
    let asked = || mate("db-1", Some(asking("db-1", None)), None);
    let by_owner = Case {
        call: call_of(RS, Operation::Delete),
        pod: pod_of(Some("ReplicaSet"), None),
        ..accepted(asked())
    };
    assert_eq!(by_owner.passes(), Some(Pass::RespondersDone));
    let mut late = accepted(asked());
    assert_eq!(late.passes(), None);
    let status = late.active.as_mut().unwrap().status.as_mut().unwrap();
    status.policy.as_mut().unwrap().deadlines.push(evacuation_api::ScheduledDeadline {
        owner: "alice".to_owned(),
        requester: "gateway.evacuation.dev/eviction".to_owned(),
        time: (now() - TimeDelta::seconds(5)).into(),
        action: evacuation_api::DeadlineAction::Evict,
        reached: false,
    });
    assert_eq!(late.passes(), Some(Pass::RespondersDone));
}

#[test]
fn a_fresh_refusal_of_one_member_answers_the_calls_for_all_and_names_it() {
    let case = Case { group: vec![mate("db-1", None, Some(refused("db-1")))], ..evict() };
    let reply = case.waits();
    assert_eq!(reply.cause, "EvacuationRefused");
    let expected =
        "shop/db-0: pod db-1 of the same PodGroup: responder self refused: busy; it is asked again";
    assert!(reply.message.starts_with(expected), "{}", reply.message);
    let by_owner = Case {
        call: call_of(RS, Operation::Delete),
        pod: pod_of(Some("ReplicaSet"), None),
        group: vec![mate("db-1", None, Some(refused("db-1")))],
        ..delete()
    };
    by_owner.asks();
}

#[test]
fn rule_11_the_answer_of_one_member_holds_the_calls_for_all_in_an_outage() {
    let delayed = || mate("db-1", Some(asking("db-1", Some("Delay"))), None);
    let silent = || mate("db-1", Some(asking("db-1", None)), None);
    let unasked = Case { group: vec![delayed()], outage: Some(outage(OutageCause::Api, 100)), ..evict() };
    for case in [unasked, Case { outage: Some(outage(OutageCause::Api, 100)), ..accepted(delayed()) }] {
        let reply = case.waits();
        assert!(reply.is_held() && reply.message.contains("pod db-1"), "{reply:?}");
    }
    for cause in [OutageCause::Api, OutageCause::Leaderless] {
        let case = Case { outage: Some(outage(cause, 100)), ..accepted(silent()) };
        assert_eq!(case.judge(), Verdict::Open(WayOut::Unanswered(cause)));
    }
    let led = Case { outage: Some(outage(OutageCause::Leaderless, 100)), ..accepted(delayed()) };
    led.waits();
}

/// Returns an outage that began so many seconds ago.
fn outage(cause: OutageCause, seconds: i64) -> Outage {
    Outage { cause, since: now() - TimeDelta::seconds(seconds) }
}

/// A preemption overrides the refusal of one app. That is no deadline, which acts alone.
#[test]
fn an_overridden_refusal_of_one_member_leaves_the_delay_of_another_standing_in_an_outage() {
    for cause in [OutageCause::Api, OutageCause::Leaderless] {
        for (beside, passes) in [(Some("Delay"), false), (Some("Refuse"), false), (Some("Accept"), true)] {
            let beside = mate("db-1", Some(asking("db-1", beside)), None);
            let mut case = Case { outage: Some(outage(cause, 100)), ..answered(Some("Refuse"), beside) };
            let status = case.active.as_mut().unwrap().status.as_mut().unwrap();
            status.policy.as_mut().unwrap().on_refusal = RefusalPolicy::Override;
            let open = case.judge() == Verdict::Open(WayOut::Unrecorded(cause));
            assert_eq!(open, passes, "{cause:?} {:?}", case.group);
            assert!(passes || matches!(case.judge(), Verdict::Wait(_)), "{:?}", case.judge());
        }
    }
}

/// The controller ends the Evacuations of the other members a moment later, or after the outage.
#[test]
fn a_refusal_that_has_ended_the_question_to_one_member_holds_the_others_in_an_outage() {
    for cause in [OutageCause::Api, OutageCause::Leaderless] {
        let case = |seconds| Case {
            outage: Some(outage(cause, seconds)),
            ..accepted(mate("db-1", None, Some(refused("db-1"))))
        };
        let reply = case(899).waits();
        assert_eq!(reply.is_held(), cause == OutageCause::Api, "{reply:?}");
        if reply.is_held() {
            let words = "shop/db-0: pod db-1 of the same PodGroup: responder self refused: busy; the";
            assert!(reply.message.starts_with(words), "{reply:?}");
        }
        assert_eq!(case(900).judge(), Verdict::Open(WayOut::HoldEnded(cause)));
        let mut overridden = case(899);
        let status = overridden.active.as_mut().unwrap().status.as_mut().unwrap();
        status.policy.as_mut().unwrap().on_refusal = RefusalPolicy::Override;
        assert_eq!(overridden.judge(), Verdict::Open(WayOut::Unanswered(cause)));
    }
}

#[test]
fn a_refusal_after_which_the_app_has_accepted_is_no_answer_of_the_group() {
    let of = |answer| Case {
        group: vec![mate("db-1", Some(asking("db-1", answer)), Some(refused("db-1")))],
        ..evict()
    };
    of(Some("Accept")).asks();
    for standing in [None, Some("Delay")] {
        assert_eq!(of(standing).waits().cause, "EvacuationRefused", "{standing:?}");
    }
}

#[test]
fn the_silence_of_one_member_opens_no_call_while_nobody_acts_and_another_can_still_answer() {
    for (asked, passes) in [(-29, false), (-30, true)] {
        let mut beside = asking("db-1", None);
        beside["metadata"]["creationTimestamp"] = at(asked);
        beside["status"]["responders"][0]["activeTime"] = at(asked);
        let silent = |cause| Case {
            outage: Some(outage(cause, 100)),
            ..answered(None, mate("db-1", Some(beside.clone()), None))
        };
        let opens = |case: Case, cause| case.judge() == Verdict::Open(WayOut::Unanswered(cause));
        let leaderless = silent(OutageCause::Leaderless);
        assert_eq!(opens(leaderless, OutageCause::Leaderless), passes, "{asked}");
        assert!(opens(silent(OutageCause::Api), OutageCause::Api), "no app can answer");
        // Its callers do not come back.
        let taint = call_of("system:serviceaccount:kube-system:node-controller", Operation::Delete);
        let taint = Case { call: taint, ..silent(OutageCause::Leaderless) };
        assert!(opens(taint, OutageCause::Leaderless), "{asked}");
    }
}

/// The call of the controller that owns a pod concerns that pod alone, and so does its Evacuation.
#[test]
fn the_entry_of_the_owner_of_a_pod_opens_no_way_past_the_other_members() {
    for (beside, passes) in [
        (mate("db-1", None, None), false),
        (mate("db-1", Some(asking("db-1", Some("Refuse"))), None), false),
        (mate("db-1", None, Some(refused("db-1"))), false),
        (mate("db-1", Some(asking("db-1", Some("Accept"))), None), true),
    ] {
        let mut case = accepted(beside);
        let entries = &mut case.active.as_mut().unwrap().spec.requesters;
        entries[0].owner = RS.to_owned();
        entries[0].name = "gateway.evacuation.dev/replicaset".to_owned();
        assert_eq!(case.passes(), passes.then_some(Pass::RespondersDone), "{:?}", case.group);
        if !passes {
            assert_eq!(case.asks().owner, "alice");
        }
    }
}

#[test]
fn a_pod_without_responders_is_asked_for_as_long_as_another_member_is() {
    let beside = |answer| Case {
        registered: false,
        group: vec![mate("db-1", Some(asking("db-1", answer)), None)],
        ..evict()
    };
    for open in [None, Some("Delay"), Some("Refuse")] {
        beside(open).asks();
        let by_owner = Case {
            call: call_of(RS, Operation::Delete),
            pod: pod_of(Some("ReplicaSet"), None),
            ..beside(open)
        };
        assert_eq!(by_owner.passes(), Some(Pass::Unregistered));
    }
    assert_eq!(beside(Some("Accept")).passes(), Some(Pass::Unregistered));
}
