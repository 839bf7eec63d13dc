use evacuation_api::{Answer, DeadlineAction, EvictionStatus, Requester, ResponderState};
use serde_json::json;

use super::{
    fixtures::{
        DRAIN, answered, blocked, drained, due, evicting_for, exhausted, held, line, pod, terminating, time,
        with,
    },
    *,
};
use crate::testing::{asking, asking_for, at, condition, evacuation, evacuation_for, requester, responder};

/// An Evacuation whose app is asked over HTTP.
fn pushed() -> evacuation_api::Evacuation {
    with(asking(), |status| {
        status.responders.as_mut().unwrap()[0].http =
            serde_json::from_value(json!({"port": 80, "path": "/"})).unwrap();
    })
}

#[test]
fn a_pod_that_is_left_to_its_caller_is_held_by_no_budget() {
    let healthy = pod(json!({}));
    let entry = || vec![Requester { caller_deletes_within_seconds: Some(15), ..requester(DRAIN) }];
    let left = with(evacuation_for(entry()), |status| {
        status.eviction.get_or_insert_default().next_attempt_time = Some(at(1015).into());
    });
    assert_eq!(line(&held(&healthy, &left, &[exhausted()], &[])), "Evicting -");
    let evicting = held(&healthy, &evicting_for(entry()), &[exhausted()], &[]);
    assert_eq!(line(&evicting), "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -");
}

#[test]
fn an_endpoint_that_is_out_of_reach_or_was_not_reminded_is_named() {
    let healthy = pod(json!({}));
    let out_of_reach = with(pushed(), |status| {
        let active = &mut status.responders.as_mut().unwrap()[0];
        active.unreachable_time = Some(at(20).into());
        active.message = Some("it could not be asked: connection refused".to_owned());
    });
    let judged = judge(&drained(&healthy, Standing::Asked(&out_of_reach)), at(40));
    let message = &judged.blocker.as_ref().unwrap().message;
    let expected = format!("responder self could not be reached since {}, and is tried", text::time(at(20)));
    assert!(message.starts_with(&expected) && message.contains("connection refused"), "{message}");
    assert_eq!(line(&judged), "Asked Unanswered Evacuation/e slow 20 80");
    let delayed = answered(pushed(), Answer::Delay, None);
    for (now, expected) in [
        (40, "Delayed Delayed Evacuation/e slow 10 500"),
        (500, "Delayed Delayed Evacuation/e slow 500 3610"),
        (3610, "Delayed -"),
    ] {
        assert_eq!(line(&judge(&drained(&healthy, Standing::Asked(&delayed)), at(now))), expected, "{now}");
    }
}

#[test]
fn an_answer_that_is_waited_for_is_slow_and_a_refusal_stuck_without_an_end() {
    use Answer::{Accept, Delay, Refuse};
    let healthy = pod(json!({}));
    let (evict, delete, give_up) = (DeadlineAction::Evict, DeadlineAction::Delete, DeadlineAction::GiveUp);
    let then_another = |e| {
        with(e, |status| {
            status.responders.as_mut().unwrap().push(responder("a.b/next", ResponderState::Inactive));
        })
    };
    let sleeping = |mut e: Evacuation| {
        let window = evacuation_api::ScheduledWindow {
            owner: "alice".to_owned(),
            requester: DRAIN.to_owned(),
            time: at(7000).into(),
            reached: false,
        };
        let value = json!({"schedule": "0 22 * * *", "durationSeconds": 60});
        e.spec.requesters[0].window = serde_json::from_value(value).unwrap();
        with(e, |status| status.policy.get_or_insert_default().windows = vec![window])
    };
    let hard = |on_refusal| asking_for(vec![Requester { on_refusal: Some(on_refusal), ..requester(DRAIN) }]);
    let table = vec![
        ("just asked", asking(), 29, "Asked 60"),
        ("asked for half of the time", asking(), 30, "Asked Unanswered Evacuation/e slow 0 60"),
        ("the time is over", asking(), 60, "Asked -"),
        ("another is asked later", then_another(asking()), 5, "Asked 120"),
        ("a deadline comes first", asking_for(due(50, evict)), 5, "Asked 50"),
        ("a deadline was reached", asking_for(due(50, evict)), 51, "Asked -"),
        ("not delivered", pushed(), 40, "Asked Unanswered Evacuation/e slow 0 -"),
        ("accepted", answered(asking(), Accept, None), 40, "Asked -"),
        ("every entry sleeps", sleeping(asking_for(vec![requester(DRAIN)])), 40, "Waiting 7000"),
        ("delayed", answered(asking(), Delay, None), 40, "Delayed Delayed Evacuation/e slow 10 500"),
        ("the delay is over", answered(asking(), Delay, None), 500, "Delayed -"),
        (
            "delayed, and another is asked later",
            then_another(answered(asking(), Delay, None)),
            40,
            "Delayed Delayed Evacuation/e slow 10 560",
        ),
        (
            "delayed beyond the deadline",
            answered(asking_for(due(200, evict)), Delay, None),
            40,
            "Delayed Delayed Evacuation/e slow 10 200",
        ),
        ("refused", answered(asking(), Refuse, None), 40, "Refused Refused Evacuation/e stuck 10 -"),
        (
            "refused, ask later",
            answered(asking(), Refuse, Some(50)),
            40,
            "Refused Refused Evacuation/e slow 10 -",
        ),
        (
            "refused, and being asked again",
            answered(asking(), Refuse, Some(50)),
            69,
            "Refused Refused Evacuation/e slow 10 -",
        ),
        (
            "refused, and silent when asked again",
            answered(asking(), Refuse, Some(50)),
            70,
            "Refused Refused Evacuation/e stuck 10 -",
        ),
        (
            "refused until the deadline",
            answered(asking_for(due(200, delete)), Refuse, None),
            40,
            "Refused Refused Evacuation/e slow 10 200",
        ),
        (
            "refused, and the deadline only gives up",
            answered(asking_for(due(200, give_up)), Refuse, None),
            40,
            "Refused Refused Evacuation/e stuck 10 -",
        ),
        (
            "refused, and overridden",
            answered(hard(evacuation_api::RefusalPolicy::Override), Refuse, None),
            40,
            "Refused -",
        ),
    ];
    for (what, e, now, expected) in table {
        let judgement = judge(&drained(&healthy, Standing::Asked(&e)), at(now));
        assert_eq!(line(&judgement), expected, "{what}");
        assert!(judgement.changes_at.is_none_or(|time| at(now) < time), "{what}");
    }
    let ended = pod(json!({"status": {"phase": "Succeeded"}}));
    assert_eq!(line(&judge(&drained(&ended, Standing::Asked(&asking())), at(40))), "Evicting -");
}

#[test]
fn a_refusal_or_a_rejection_is_not_stuck_for_a_pod_that_ends_by_itself() {
    let refused = || answered(asking(), Answer::Refuse, None);
    let rejected = || blocked(evacuation_for(vec![requester(DRAIN)]), "EvictionRejected", "denied");
    let mate = || blocked(evacuation_for(vec![requester(DRAIN)]), "Refused", "pod ns/b refused");
    let lasts = |policy: Option<&str>| pod(json!({"spec": {"restartPolicy": policy}}));
    for (e, slow, stuck) in [
        (refused(), "Refused Refused Evacuation/e slow 10 -", "Refused Refused Evacuation/e stuck 10 -"),
        (mate(), "Blocked Refused Evacuation/e slow 0 -", "Blocked Refused Evacuation/e stuck 0 -"),
        (
            rejected(),
            "Blocked EvictionRejected Evacuation/e slow 0 -",
            "Blocked EvictionRejected Evacuation/e stuck 0 -",
        ),
    ] {
        for (policy, expected) in
            [(Some("Never"), slow), (Some("OnFailure"), slow), (Some("Always"), stuck), (None, stuck)]
        {
            let judged = lasts(policy);
            let judgement = judge(&drained(&judged, Standing::Asked(&e)), at(1000));
            assert_eq!(line(&judgement), expected, "{policy:?}");
            let helps = judgement.blocker.unwrap().message;
            let named = helps.contains("what helps: nothing is needed if the pod ends by itself");
            assert_eq!(named, expected == slow, "{helps}");
        }
        let on_dead_node = lasts(Some("Never"));
        let mut seen = drained(&on_dead_node, Standing::Asked(&e));
        seen.node_silent_since = Some(at(0));
        assert_eq!(line(&judge(&seen, at(1000))), stuck, "nobody sees it end");
    }
}

/// A refusal, recorded since 10.
fn refused_at(evacuation: Evacuation, answered_at: i64, retry: Option<i64>) -> Evacuation {
    let refused = answered(blocked(evacuation, "Refused", ""), Answer::Refuse, retry);
    with(refused, |status| {
        status.conditions[0].last_transition_time = evacuation_api::condition_time(at(10));
        status.responders.as_mut().unwrap()[0].answer_time = Some(at(answered_at).into());
    })
}

#[test]
fn an_app_that_refuses_each_time_it_is_asked_turns_stuck_once_and_stays_so() {
    let refusing = pod(json!({}));
    // Per app: the time between its refusals, and whether it names the time. It replies within 3 s.
    for (evacuation, period, names_it) in
        [(pushed(), 60, false), (pushed(), 5, true), (pushed(), 60, true), (asking(), 600, true)]
    {
        let (mut answered_at, mut stuck_since) = (10, None);
        for now in 10..2000 {
            if now == answered_at + period + 3 {
                answered_at = now;
            }
            let retry = names_it.then_some(answered_at + period);
            let refused = refused_at(evacuation.clone(), answered_at, retry);
            let judgement = judge(&drained(&refusing, Standing::Asked(&refused)), at(now));
            assert!(judgement.changes_at.is_none_or(|time| at(now) < time));
            let blocker = judgement.blocker.unwrap();
            assert_eq!((blocker.reason.as_str(), blocker.since), ("Refused", at(10).into()));
            assert!(blocker.stuck || stuck_since.is_none(), "{period} s, {names_it}: not stuck at {now}");
            if blocker.stuck {
                stuck_since.get_or_insert(now);
            }
            let is = if period == 600 { "may be" } else { "is" };
            let next = text::time(at(answered_at + period));
            let helps = format!("what helps: the responder {is} asked again at {next}, and must change its");
            assert!(blocker.message.contains(&helps), "{}", blocker.message);
        }
        assert_eq!(stuck_since, Some((13 + period).max(70)), "{period} s, {names_it}");
    }
}

#[test]
fn what_failed_since_the_answer_of_an_app_is_named_however_long_its_words_are() {
    let healthy = pod(json!({}));
    for (answer, words, shown) in [
        (Answer::Delay, Some("a job runs".to_owned()), ": a job runs; since then: it replied 500"),
        (Answer::Refuse, None, "responder self refused; since then: it replied 500"),
        (Answer::Refuse, Some("x".repeat(900)), "x…; since then: it replied 500"),
    ] {
        let asked = with(answered(pushed(), answer, None), |status| {
            let responder = &mut status.responders.as_mut().unwrap()[0];
            (responder.message, responder.failure) = (words, Some("it replied 500".to_owned()));
        });
        let message = judge(&drained(&healthy, Standing::Asked(&asked)), at(40)).blocker.unwrap().message;
        assert!(message.contains(shown), "{message}");
    }
}

#[test]
fn an_app_that_refused_and_falls_silent_is_stuck() {
    let refusing = pod(json!({}));
    for (evacuation, retry, stuck_from, helps) in [
        (pushed(), None, 80, "is asked again since 2024-10-04T00:01:10Z, without an answer, and must change"),
        (pushed(), Some(310), 320, "is asked again since 2024-10-04T00:05:10Z, without an answer, and must"),
        (asking(), Some(310), 320, "what helps: the responder must change its answer; or "),
        (asking(), None, 10, "what helps: the responder must change its answer; or "),
    ] {
        let refused = refused_at(evacuation, 10, retry);
        let at_time = |now| judge(&drained(&refusing, Standing::Asked(&refused)), at(now));
        let (before, after) = (at_time(stuck_from - 1), at_time(stuck_from));
        assert_eq!(before.blocker.unwrap().stuck, stuck_from == 10, "{retry:?}");
        assert_eq!(before.changes_at, (stuck_from != 10).then_some(at(stuck_from)), "{retry:?}");
        assert_eq!(line(&after), "Refused Refused Evacuation/e stuck 10 -");
        let message = after.blocker.unwrap().message;
        assert!(message.contains(helps), "{message}");
    }
}

#[test]
fn an_eviction_that_is_rejected_or_ignored_is_stuck() {
    let healthy = pod(json!({}));
    let rejected = |requesters| blocked(evacuation_for(requesters), "EvictionRejected", "denied");
    let accepted = with(evacuation(), |status| {
        let attempt = EvictionStatus {
            attempts: 1,
            accepted: true,
            last_attempt_time: Some(at(0).into()),
            ..EvictionStatus::default()
        };
        status.eviction = Some(attempt);
    });
    let plain = || rejected(vec![requester(DRAIN)]);
    let table = [
        (plain(), 100, "Blocked EvictionRejected Evacuation/e stuck 0 -"),
        (rejected(due(500, DeadlineAction::Delete)), 100, "Blocked EvictionRejected Evacuation/e slow 0 500"),
        (rejected(due(50, DeadlineAction::Delete)), 100, "Blocked EvictionRejected Evacuation/e stuck 0 -"),
        (accepted.clone(), 59, "Evicting -"),
        (accepted.clone(), 60, "Evicting Terminating Pod/db-0 slow 0 -"),
        (accepted, 300, "Evicting Terminating Pod/db-0 stuck 0 -"),
    ];
    for (e, now, expected) in table {
        let judgement = judge(&drained(&healthy, Standing::Asked(&e)), at(now));
        assert_eq!(line(&judgement), expected, "{:?} at {now}", e.status);
    }
}

#[test]
fn a_pod_that_terminates_is_stuck_when_nothing_takes_it_away() {
    let job = json!({"metadata": {"finalizers": ["a.b/c", "d.e/f"], "deletionTimestamp": time(100)}});
    let silent = Some(at(50));
    let table = [
        (terminating(), None, 0, "Evicting 100"),
        (terminating(), None, 129, "Evicting 100"),
        (terminating(), None, 130, "Evicting Terminating Pod/db-0 slow 100 -"),
        (terminating(), None, 399, "Evicting Terminating Pod/db-0 slow 100 -"),
        (terminating(), None, 400, "Evicting Terminating Pod/db-0 stuck 100 -"),
        (terminating(), silent, 129, "Evicting 100"),
        (terminating(), silent, 130, "Evicting NodeUnreachable Node/n stuck 100 -"),
        (job.clone(), None, 129, "Evicting 100"),
        (job.clone(), None, 130, "Evicting Finalizer Pod/db-0 stuck 100 -"),
        (job.clone(), silent, 130, "Evicting Finalizer Pod/db-0 stuck 100 -"),
        (json!({}), silent, 130, "Evicting -"),
    ];
    let left = with(evacuation(), |status| status.conditions.push(condition("Failed", "True", "Refused")));
    for (patch, node_silent_since, now, expected) in table {
        let pod = pod(patch.clone());
        let standings = [Standing::Leaving, Standing::Waiting, Standing::LeftAlone(&left)];
        let ways = if patch == json!({}) { 1 } else { standings.len() };
        for standing in standings.into_iter().take(ways) {
            let judgement = judge(&DrainedPod { node_silent_since, ..drained(&pod, standing) }, at(now));
            assert_eq!(line(&judgement), expected, "{patch} at {now}");
        }
    }
    let pod = pod(job);
    let finalizer = judge(&drained(&pod, Standing::Leaving), at(130)).blocker.unwrap().message;
    assert!(finalizer.contains("it keeps the finalizers a.b/c, d.e/f;"), "{finalizer}");
    let silent = DrainedPod { node_silent_since: silent, ..drained(&pod, Standing::Leaving) };
    let finalizer = judge(&silent, at(130)).blocker.unwrap().message;
    assert!(finalizer.starts_with("node n does not report since "), "the dead node comes first: {finalizer}");
}

#[test]
fn the_pods_of_a_dead_node_have_one_message_and_commands_that_help() {
    let of = |name: &str| {
        let name = json!({"metadata": {"name": name, "deletionTimestamp": time(100)}});
        let pod = pod(name);
        let seen = DrainedPod { node_silent_since: Some(at(50)), ..drained(&pod, Standing::Leaving) };
        judge(&seen, at(130)).blocker.unwrap().message
    };
    let message = of("db-0");
    assert_eq!(message, of("db-1"), "the cause is the node, and not the pod");
    assert_eq!(
        message,
        "node n does not report since 2024-10-04T00:00:50Z, and only its kubelet ends its pods; what helps: \
         repair the node; or let the drain end without pods that terminate: kubectl evacuate set n \
         --skip-wait-for-delete-timeout=30; or, once it is certain that the node is off, have its pods removed: \
         kubectl taint node n node.kubernetes.io/out-of-service=nodeshutdown:NoExecute; and when it is back: \
         kubectl taint node n node.kubernetes.io/out-of-service:NoExecute-"
    );
    let pod = pod(terminating());
    let unknown = DrainedPod { drain: None, ..drained(&pod, Standing::Leaving) };
    let message = judge(&unknown, at(130)).blocker.unwrap().message;
    assert!(!message.contains("kubectl evacuate set"), "there is no drain to name: {message}");
    let from_the_start =
        DrainedPod { node_silent_since: Some(DateTime::<Utc>::MIN_UTC), ..drained(&pod, Standing::Leaving) };
    let message = judge(&from_the_start, at(130)).blocker.unwrap().message;
    assert!(message.starts_with("node n does not report, and"), "{message}");
}

#[test]
fn a_pod_that_is_not_asked_names_the_command_that_changes_it() {
    let owner = |kind| {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "1", "controller": true});
        pod(json!({"metadata": {"labels": {"app": "o"}, "ownerReferences": [owner]}}))
    };
    let (daemon, other) = (owner("DaemonSet"), owner("StatefulSet"));
    let table = [
        (
            vec![DrainRefusal::DaemonSet],
            &daemon,
            "DaemonSet DaemonSet/o",
            " --ignore-daemonsets; then all pods of DaemonSets stay; or leave out all pods with app=o: kubectl",
        ),
        (
            vec![DrainRefusal::MissingDaemonSet],
            &daemon,
            "Unmanaged Pod/db-0",
            " --force; then all pods of the drain go that no controller",
        ),
        (
            vec![DrainRefusal::LocalStorage],
            &other,
            "LocalStorage Pod/db-0",
            " --delete-emptydir-data; then all pods of the drain lose",
        ),
        (
            vec![DrainRefusal::Unmanaged],
            &other,
            "Unmanaged Pod/db-0",
            " --force; then all pods of the drain go that no controller",
        ),
        (
            vec![DrainRefusal::LocalStorage, DrainRefusal::Unmanaged],
            &other,
            "LocalStorage Pod/db-0",
            " --delete-emptydir-data --force; then all pods of the drain lose the data of their emptyDir volumes, \
             and all pods of the drain go",
        ),
    ];
    for (reasons, pod, expected, way_out) in table {
        let judgement = judge(&drained(pod, Standing::Refused(reasons.clone())), at(7));
        assert_eq!(line(&judgement), format!("Blocked {expected} stuck 7 -"), "{reasons:?}");
        let message = judgement.blocker.unwrap().message;
        assert!(message.contains(way_out), "{message}");
    }
    for standing in [Standing::Waiting, Standing::Refused(Vec::new())] {
        assert_eq!(line(&judge(&drained(&other, standing), at(7))), "Waiting -");
    }
}

#[test]
fn a_pod_that_was_left_alone_is_stuck() {
    let healthy = pod(json!({}));
    for (reason, count, words) in [
        ("Refused", "Refused", "because a responder refused: responder self refused: busy;"),
        ("Canceled", "Blocked", "because the request was canceled: "),
        ("DeadlineGaveUp", "Blocked", "because the deadline passed: "),
        ("NewerThanThisCrate", "Blocked", "because the request ended: "),
    ] {
        let e = with(evacuation(), |status| {
            let mut failed = condition("Failed", "True", reason);
            "responder self refused: busy".clone_into(&mut failed.message);
            status.conditions.push(failed);
        });
        for standing in [Standing::LeftAlone(&e), Standing::Asked(&e)] {
            let judgement = judge(&drained(&healthy, standing), at(40));
            assert_eq!(line(&judgement), format!("{count} LeftAlone Evacuation/e stuck 0 -"), "{reason}");
            let message = judgement.blocker.unwrap().message;
            assert!(message.contains(words), "{message}");
        }
    }
}

#[test]
fn a_blocker_keeps_the_time_that_an_earlier_status_remembers() {
    let healthy = pod(json!({}));
    let judged = |reason, now| judge(&drained(&healthy, Standing::Refused(vec![reason])), at(now));
    let before = [judged(DrainRefusal::LocalStorage, 7).blocker.unwrap()];
    for (reason, now, since) in [
        (DrainRefusal::LocalStorage, 50, 7),
        (DrainRefusal::LocalStorage, 3, 3),
        (DrainRefusal::Unmanaged, 50, 50),
    ] {
        let mut judgement = judged(reason, now);
        judgement.keep_since(&before, at(now));
        assert_eq!(judgement.blocker.unwrap().since, at(since).into(), "{reason:?} at {now}");
    }
}

#[test]
fn the_names_that_a_pod_gives_its_owner_are_bounded_and_clean() {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x\n".repeat(500_000), "uid": "1", "controller": true});
    let pod = pod(json!({"metadata": {"ownerReferences": [owner]}}));
    let refused = Standing::Refused(vec![DrainRefusal::DaemonSet]);
    let blocker = judge(&drained(&pod, refused), at(0)).blocker.unwrap();
    for text in [blocker.owner.unwrap(), blocker.object.unwrap(), blocker.message] {
        assert!(text.len() < 1024 && !text.contains('\n'), "{} bytes", text.len());
    }
}
