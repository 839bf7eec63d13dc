use evacuation_api::{
    DeadlineAction, DrainBlocker, NO_REPLACEMENT_REASON, ONE_AT_A_TIME_ANNOTATION, REPLACEMENT_RESPONDER,
    Requester, ResponderState, ResponderStatus,
};
use serde_json::{Value, json};

use super::super::{
    PodJudgement, Standing,
    fixtures::{
        asking_done, blocked, budget, drained, due, evicting, evicting_for, exhausted, held, line, merge,
        pod, starting, sync_failed, terminating_until, time, unready, unschedulable, waiting, with,
    },
    judge,
};
use crate::testing::{asking, at, evacuation};

#[test]
fn a_budget_is_stuck_only_when_no_pod_can_make_room_in_it() {
    let healthy = pod(json!({}));
    let pending = starting("db-0");
    let bare = pod(json!({"metadata": {"ownerReferences": []}}));
    let none = || budget(0, 3, 3, 3, json!({}));
    let behind = json!({"metadata": {"generation": 3}});
    let unseen = json!({"status": {"observedGeneration": null}});
    let table = [
        (
            "no room now",
            held(&healthy, &evicting(), &[exhausted()], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
        ),
        ("room", held(&healthy, &evacuation(), &[budget(1, 3, 2, 3, json!({}))], &[]), "Evicting -"),
        (
            "room, and it is not the pod's turn",
            held(&healthy, &evicting(), &[budget(1, 3, 2, 3, json!({}))], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
        ),
        ("no budget", held(&healthy, &evacuation(), &[], &[]), "Evicting -"),
        ("a pending pod", held(&pending, &evacuation(), &[none()], &[]), "Evicting -"),
        (
            "no room ever",
            held(&healthy, &evicting(), &[none()], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "no room ever, before the first attempt",
            held(&healthy, &asking_done(), &[none()], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 10 -",
        ),
        (
            "no room ever, and a deadline deletes the pod",
            held(&healthy, &evicting_for(due(5000, DeadlineAction::Delete)), &[none()], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db slow 0 5000",
        ),
        (
            "no room ever, and a deadline only evicts the pod",
            held(&healthy, &evicting_for(due(5000, DeadlineAction::Evict)), &[none()], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "a deadline that deletes was reached",
            held(&healthy, &evicting_for(due(900, DeadlineAction::Delete)), &[none()], &[]),
            "Evicting -",
        ),
        (
            "no pod is counted, because none has a controller",
            held(&bare, &evicting(), &[budget(0, 1, 0, 0, json!({}))], &[]),
            "Blocked BudgetNotComputed PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "the numbers are those of an older budget",
            held(&healthy, &evicting(), &[budget(0, 3, 3, 3, behind)], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
        ),
        (
            "the budget was never computed",
            held(&healthy, &evicting(), &[budget(0, 0, 0, 0, unseen)], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
        ),
        (
            "the budget cannot be computed",
            held(&healthy, &evicting(), &[sync_failed(2)], &[]),
            "Blocked BudgetNotComputed PodDisruptionBudget/db stuck 5 -",
        ),
        (
            "the budget cannot be computed since its last change: the failure names the generation before it",
            held(&healthy, &evicting(), &[sync_failed(1)], &[]),
            "Blocked BudgetNotComputed PodDisruptionBudget/db stuck 5 -",
        ),
    ];
    for (what, judgement, expected) in table {
        assert_eq!(line(&judgement), expected, "{what}");
    }
}

#[test]
fn a_number_of_pods_is_judged_by_the_unready_ones_until_those_that_exist_are_healthy() {
    let healthy = pod(json!({}));
    // db-2 of three is not created before db-1 is ready again.
    let two =
        |healthy| budget(0, healthy, 2, 2, json!({"spec": {"maxUnavailable": null, "minAvailable": 2}}));
    for (what, budget, unready, expected) in [
        ("it starts", two(1), starting("db-1"), "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -"),
        (
            "it crashes",
            two(1),
            waiting("db-1", "CrashLoopBackOff"),
            "Blocked ReplacementCrashing Pod/db-1 stuck 0 -",
        ),
        (
            "a limit that counts the owner's replicas",
            budget(0, 1, 2, 2, json!({})),
            starting("db-1"),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
    ] {
        assert_eq!(line(&held(&healthy, &evicting(), &[budget], &[unready])), expected, "{what}");
    }
    let judgement = held(&healthy, &evicting(), &[two(2)], &[]);
    assert_eq!(line(&judgement), "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -");
}

#[test]
fn a_budget_without_a_limit_is_stuck_and_one_whose_pod_ends_by_itself_is_not() {
    let healthy = pod(json!({}));
    let bare = pod(json!({"metadata": {"ownerReferences": []}}));
    let worker = pod(json!({"spec": {"restartPolicy": "OnFailure"}}));
    let without_limit = || json!({"spec": {"maxUnavailable": null}});
    let none = || budget(0, 3, 3, 3, json!({}));
    let table = [
        (
            "the owner is scaled to 0",
            held(&healthy, &evicting(), &[budget(0, 1, 0, 0, json!({}))], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "neither limit",
            held(&healthy, &evicting(), &[budget(0, 3, 0, 0, without_limit())], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "neither limit, and no controller",
            held(&bare, &evicting(), &[budget(0, 3, 0, 0, without_limit())], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "no room ever, and the pod ends by itself",
            held(&worker, &evicting(), &[none()], &[]),
            "Blocked BudgetAllowsNone PodDisruptionBudget/db slow 0 -",
        ),
        (
            "two budgets, and the pod ends by itself",
            held(&worker, &evicting(), &[none(), exhausted()], &[]),
            "Blocked MultipleBudgets PodDisruptionBudget/db slow 0 -",
        ),
    ];
    for (what, judgement, expected) in table {
        assert_eq!(line(&judgement), expected, "{what}");
    }
}

#[test]
fn two_budgets_and_an_unhealthy_pod_are_stuck_when_the_eviction_api_refuses_them() {
    let (healthy, sick) = (pod(json!({})), pod(unready()));
    let pending = starting("db-0");
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    let none = || budget(0, 3, 3, 3, json!({}));
    let table = [
        (
            "two budgets",
            held(&healthy, &evicting(), &[exhausted(), exhausted()], &[]),
            "Blocked MultipleBudgets PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "two budgets and a deadline that deletes",
            held(&healthy, &evicting_for(due(5000, DeadlineAction::Delete)), &[exhausted(), none()], &[]),
            "Blocked MultipleBudgets PodDisruptionBudget/db slow 0 5000",
        ),
        (
            "two budgets, and the pod is pending",
            held(&pending, &evacuation(), &[none(), none()], &[]),
            "Evicting -",
        ),
        (
            "an unhealthy pod",
            held(&sick, &evicting(), &[budget(0, 1, 2, 3, json!({}))], &[]),
            "Blocked UnhealthyPod PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "an unhealthy pod is not its own replacement",
            held(&sick, &evicting(), &[budget(0, 1, 2, 3, json!({}))], &[pod(unready())]),
            "Blocked UnhealthyPod PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "an unhealthy pod that waits for a replacement",
            held(&sick, &evicting(), &[budget(0, 1, 2, 3, json!({}))], &[starting("db-1")]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
        ),
        (
            "an unhealthy pod whose budget lets it pass",
            held(&sick, &evacuation(), &[budget(0, 1, 2, 3, always)], &[]),
            "Evicting -",
        ),
        (
            "an unhealthy pod that is not needed",
            held(&sick, &evacuation(), &[exhausted()], &[]),
            "Evicting -",
        ),
    ];
    for (what, judgement, expected) in table {
        assert_eq!(line(&judgement), expected, "{what}");
    }
}

#[test]
fn a_replacement_that_fails_is_stuck_unless_others_make_the_room() {
    let healthy = pod(json!({}));
    let sick = pod(unready());
    let slow = "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -";
    let ended = pod(json!({"metadata": {"name": "db-1"}, "status": {"phase": "Failed"}}));
    let mut leaving = unschedulable("db-1");
    leaving.metadata.deletion_timestamp = Some(evacuation_api::condition_time(at(0)));
    let table = [
        (
            "unschedulable",
            &healthy,
            vec![unschedulable("db-1")],
            "Blocked ReplacementUnschedulable Pod/db-1 stuck 0 -",
        ),
        ("starting", &healthy, vec![starting("db-1")], slow),
        ("another makes the room", &healthy, vec![unschedulable("db-1"), starting("db-2")], slow),
        (
            "another makes half of the room, and one pod is unhealthy",
            &healthy,
            vec![unschedulable("db-1"), starting("db-2")],
            "Blocked ReplacementUnschedulable Pod/db-1 stuck 0 -",
        ),
        ("terminating, and another takes its place", &healthy, vec![leaving, starting("db-2")], slow),
        (
            "ended, and nobody creates another",
            &healthy,
            vec![ended],
            "Blocked ReplacementMissing StatefulSet/db stuck 0 -",
        ),
        (
            "unschedulable, and the pod is unhealthy",
            &sick,
            vec![unschedulable("db-1")],
            "Blocked ReplacementUnschedulable Pod/db-1 stuck 0 -",
        ),
        (
            "the first by name",
            &healthy,
            vec![waiting("db-1", "CrashLoopBackOff"), unschedulable("db-3"), unschedulable("db-2")],
            "Blocked ReplacementUnschedulable Pod/db-2 stuck 0 -",
        ),
    ];
    for (what, pod, unready, expected) in table {
        let budget = if what.ends_with("unhealthy") { budget(0, 1, 2, 3, json!({})) } else { exhausted() };
        assert_eq!(line(&held(pod, &evicting(), &[budget], &unready)), expected, "{what}");
    }
    for (reason, expected) in [
        ("ErrImagePull", "ReplacementImage"),
        ("ImagePullBackOff", "ReplacementImage"),
        ("InvalidImageName", "ReplacementImage"),
        ("ErrImageNeverPull", "ReplacementImage"),
        ("CrashLoopBackOff", "ReplacementCrashing"),
        ("CreateContainerConfigError", "ReplacementCrashing"),
        ("CreateContainerError", "ReplacementCrashing"),
        ("RunContainerError", "ReplacementCrashing"),
        ("ContainerCreating", "ReplacementUnready"),
        ("PodInitializing", "ReplacementUnready"),
    ] {
        let expected = format!("Blocked {expected} Pod/db-1 stuck 0 -");
        let judgement = held(&healthy, &evicting(), &[exhausted()], &[waiting("db-1", reason)]);
        assert_eq!(line(&judgement), expected, "{reason}");
    }
}

/// Two pods of a budget with `maxUnavailable: 1`, both unready since 0: each waits for the other.
#[test]
fn an_unready_pod_is_hope_for_the_others_of_its_budget_for_a_minute_only() {
    let (sick, healthy) = (pod(unready()), pod(json!({})));
    let mut other = pod(unready());
    other.metadata.name = Some("db-1".to_owned());
    other.metadata.uid = Some("pod-2".to_owned());
    let e = evicting();
    for (pod, budget, allow_helps) in
        [(&sick, budget(0, 0, 1, 2, json!({})), true), (&healthy, budget(0, 1, 1, 2, json!({})), false)]
    {
        let mut seen = drained(pod, Standing::Asked(&e));
        seen.budgets = vec![&budget];
        seen.unready = Some(vec![&other]);
        let (before, after) = (judge(&seen, at(59)), judge(&seen, at(60)));
        assert_eq!(line(&before), "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -");
        assert_eq!(before.changes_at, Some(at(60)));
        assert_eq!(line(&after), "Blocked ReplacementUnready Pod/db-1 stuck 0 -");
        assert_eq!(after.changes_at, None);
        let message = after.blocker.unwrap().message;
        let cause = "budget db waits for pod db-1, which has not been ready since 2024-10-04T00:00:00Z; what \
                     helps: repair the app or the node of that pod; or end the request, so that apps that \
                     were asked can take up their work again: kubectl evacuate cancel n";
        assert!(message.starts_with(cause), "{message}");
        assert_eq!(message.contains("AlwaysAllow"), allow_helps, "{message}");
    }
}

#[test]
fn two_pods_of_a_budget_on_a_dead_node_name_the_node_and_the_taint() {
    let sick = pod(unready());
    let mut patch = unready();
    merge(
        &mut patch,
        json!({"metadata": {"name": "db-1", "uid": "pod-2"}, "spec": {"nodeName": "n", "containers": []}}),
    );
    let beside = pod(patch);
    let mut elsewhere = beside.clone();
    elsewhere.spec.as_mut().unwrap().node_name = Some("other".to_owned());
    let e = evicting();
    let budget = budget(0, 0, 1, 2, json!({}));
    for (other, is_named) in [(&beside, true), (&elsewhere, false)] {
        let mut seen = drained(&sick, Standing::Asked(&e));
        seen.budgets = vec![&budget];
        seen.unready = Some(vec![other]);
        seen.node_silent_since = Some(at(5));
        let message = judge(&seen, at(60)).blocker.unwrap().message;
        let cause = ", because node n does not report since 2024-10-04T00:00:05Z; what helps: repair the node; \
                     or, once it is certain that the node is off, have its pods removed: kubectl taint node n ";
        assert_eq!(message.contains(cause), is_named, "{message}");
    }
}

#[test]
fn a_volume_that_is_attached_elsewhere_is_named_unless_the_pod_fails_otherwise() {
    let healthy = pod(json!({}));
    let held_by = |replacement: k8s_openapi::api::core::v1::Pod| {
        held(&healthy, &evicting(), &[exhausted()], &[replacement])
    };
    let judgement = held_by(starting("volume"));
    assert_eq!(line(&judgement), "Blocked ReplacementVolume PersistentVolume/pvc-1 stuck 0 -");
    let message = judgement.blocker.unwrap().message;
    for words in [
        "budget db waits for pod volume, which waits for a volume that cannot be attached to its node",
        r#"Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) db-0"#,
        "node.kubernetes.io/out-of-service:NoExecute",
        "delete the VolumeAttachment",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    for (replacement, reason) in [
        (unschedulable("volume"), "ReplacementUnschedulable"),
        (waiting("volume", "ErrImagePull"), "ReplacementImage"),
        (starting("another"), "BudgetExhausted"),
    ] {
        let blocker = held_by(replacement).blocker.unwrap();
        assert_eq!(blocker.reason, reason, "{}", blocker.message);
    }
    let mut running = starting("volume");
    running.status.get_or_insert_default().phase = Some("Running".to_owned());
    assert_eq!(held_by(running).blocker.unwrap().reason, "BudgetExhausted", "the volume is attached");
}

#[test]
fn a_failure_that_the_cluster_retries_is_stuck_when_it_lasts() {
    let (healthy, sick) = (pod(json!({})), pod(unready()));
    let (budget, needed) = (exhausted(), budget(0, 1, 2, 3, json!({})));
    let replacements =
        [unschedulable("db-1"), waiting("db-1", "ErrImagePull"), waiting("db-1", "CrashLoopBackOff")];
    let e = evicting();
    let rejected = blocked(evacuation(), "EvictionRejected", "admission webhook \"x\" denied the request");
    let on_budget = |pod, budget, unready| {
        let mut pod = drained(pod, Standing::Asked(&e));
        pod.budgets = vec![budget];
        pod.unready = Some(unready);
        pod
    };
    let mut table: Vec<_> = replacements.iter().map(|pod| on_budget(&healthy, &budget, vec![pod])).collect();
    table.push(on_budget(&sick, &needed, vec![]));
    table.push(drained(&healthy, Standing::Asked(&rejected)));
    table.push(drained(&healthy, Standing::Rejected { message: "no", since: at(0) }));
    for pod in table {
        let (before, after) = (judge(&pod, at(59)), judge(&pod, at(60)));
        let (before_blocker, after_blocker) = (before.blocker.clone().unwrap(), after.blocker.unwrap());
        assert!(!before_blocker.stuck && after_blocker.stuck, "{after_blocker:?}");
        assert_eq!(before_blocker, DrainBlocker { stuck: false, ..after_blocker });
        assert_eq!((before.changes_at, after.changes_at), (Some(at(60)), None));
    }
}

#[test]
fn a_number_of_healthy_pods_agrees_with_its_verb() {
    let (healthy, sick) = (pod(json!({})), pod(unready()));
    let message = |pod, healthy| {
        let judgement = held(pod, &evicting(), &[budget(0, healthy, 2, 3, json!({}))], &[]);
        judgement.blocker.unwrap().message
    };
    assert!(message(&healthy, 1).contains("now: 1 of its pods is healthy, and 2 must be"));
    assert!(message(&healthy, 0).contains("now: 0 of its pods are healthy, and 2 must be"));
    assert!(message(&sick, 1).contains("while 1 of its pods is healthy and 2 must be"));
}

#[test]
fn a_budget_that_allows_none_names_the_patch_by_which_it_allows_one() {
    let owned = || pod(json!({}));
    let bare = || pod(json!({"metadata": {"ownerReferences": []}}));
    let (one, fewer) = (
        r#"{"spec":{"minAvailable":null,"maxUnavailable":1}}"#,
        r#"{"spec":{"minAvailable":2,"maxUnavailable":null}}"#,
    );
    let none = json!({"maxUnavailable": null});
    let all = json!({"maxUnavailable": null, "minAvailable": "100%"});
    let number = |number: i32| json!({"maxUnavailable": null, "minAvailable": number});
    let table = vec![
        (owned(), json!({"maxUnavailable": 0}), 3, one),
        (owned(), json!({"maxUnavailable": "0%"}), 3, one),
        (owned(), all.clone(), 3, one),
        (owned(), number(3), 3, r#"{"spec":{"minAvailable":2}}"#),
        (owned(), number(5), 3, r#"{"spec":{"minAvailable":2}}"#),
        (owned(), number(1), 1, r#"{"spec":{"minAvailable":0}}"#),
        (owned(), none.clone(), 0, one),
        // The API refuses a budget with both limits.
        (bare(), json!({"maxUnavailable": 0}), 3, fewer),
        (bare(), all, 3, fewer),
        (bare(), number(3), 3, r#"{"spec":{"minAvailable":2}}"#),
        (bare(), none, 0, fewer),
    ];
    for (pod, limit, expected, patch) in table {
        let budget = budget(0, 3, expected, expected, json!({"spec": limit}));
        let message = held(&pod, &evicting(), &[budget], &[]).blocker.unwrap().message;
        assert!(message.contains(&format!("--type=merge -p '{patch}'")), "{limit}: {message}");
    }
}

#[test]
fn the_deletion_at_a_deadline_says_that_the_budget_does_not_prevent_it() {
    let message = held(&pod(json!({})), &evicting(), &[budget(0, 3, 3, 3, json!({}))], &[]);
    let message = message.blocker.unwrap().message;
    let words = "; or have the pod deleted at a deadline, which the budget does not prevent: kubectl create \
                 evacuation db-0 -n shop --deadline=10m --at-deadline=delete";
    assert!(message.ends_with(words), "{message}");
}

#[test]
fn a_pod_of_a_dead_node_that_its_budget_protects_names_the_node_first() {
    let (sick, e, budget) = (pod(unready()), evicting(), budget(0, 1, 2, 3, json!({})));
    let mut seen = drained(&sick, Standing::Asked(&e));
    seen.budgets = vec![&budget];
    seen.node_silent_since = Some(at(5));
    let message = judge(&seen, at(1000)).blocker.unwrap().message;
    let words =
        "node n does not report since 2024-10-04T00:00:05Z, so the pod is not ready, and budget db protects";
    assert!(message.starts_with(words) && message.contains("; what helps: repair the node, or"), "{message}");
}

#[test]
fn messages_name_the_cause_and_the_way_out() {
    let healthy = pod(json!({}));
    let message = |judgement: PodJudgement| judgement.blocker.unwrap().message;
    let table = [
        (
            message(held(&healthy, &evicting(), &[budget(0, 3, 3, 3, json!({}))], &[])),
            "budget db allows no disruption even when all of its pods are healthy (maxUnavailable 0, 3 of \
             3 pods must be healthy); what helps: let the budget allow one disruption: kubectl patch \
             poddisruptionbudget db -n shop --type=merge -p \
             '{\"spec\":{\"minAvailable\":null,\"maxUnavailable\":1}}'; or have the pod deleted at a deadline",
        ),
        (
            message(held(&healthy, &evicting(), &[sync_failed(2)], &[])),
            "the disruption controller cannot compute budget db: db.acme.io does not implement the scale \
             subresource; what helps: let the budget select only pods whose owner has the subresource scale; or \
             use minAvailable with a number; or delete the budget: kubectl delete poddisruptionbudget db -n shop",
        ),
        (
            message(held(&healthy, &evicting(), &[exhausted()], &[unschedulable("db-1")])),
            "budget db waits for pod db-1, which cannot be scheduled: 0/3 nodes are available: 1 node(s) \
             were unschedulable; what helps: add capacity or uncordon a node; or, as two drains that wait for \
             each other's replacements show exactly this, end this one: kubectl evacuate cancel n",
        ),
        (
            message(held(&healthy, &evicting(), &[exhausted()], &[waiting("db-1", "RunContainerError")])),
            "budget db waits for pod db-1, whose container app does not run: RunContainerError: said of \
             RunContainerError; what helps: ",
        ),
        (
            message(held(&healthy, &evicting_for(due(5000, DeadlineAction::Delete)), &[exhausted()], &[])),
            "budget db allows no disruption now: 2 of its pods are healthy, and 2 must be; what helps: \
             nothing is needed, because its deadline deletes the pod at 2024-10-04T01:23:20Z",
        ),
    ];
    for (message, expected) in table {
        assert!(message.starts_with(expected), "{message}");
    }
    let long = blocked(evacuation(), "EvictionRejected", &"no\u{7}".repeat(100_000));
    let blocker = held(&healthy, &long, &[], &[]).blocker.unwrap();
    assert!(blocker.message.len() < 600 && !blocker.message.contains('\u{7}'), "{}", blocker.message);
    assert_eq!(blocker.owner.as_deref(), Some("StatefulSet/db"));
}

#[test]
fn a_replacement_first_is_named_only_where_one_can_be_made() {
    let none = || budget(0, 3, 3, 3, json!({}));
    let of_set =
        json!({"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": true}]});
    let of_set = |patch| {
        let mut all = json!({"metadata": of_set});
        merge(&mut all, patch);
        pod(all)
    };
    let annotated = |value| of_set(json!({"metadata": {"annotations": {ONE_AT_A_TIME_ANNOTATION: value}}}));
    let answered = |name: &str, reason: &str| {
        with(evicting(), |status| {
            let said = ResponderStatus {
                name: name.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some("Deployment web has the strategy Recreate".to_owned()),
                ..asking_done().status.unwrap().responders.unwrap().remove(0)
            };
            status.responders = Some(vec![said]);
        })
    };
    let said = "; responder surge.evacuation.dev/replacement answered NoReplacement: Deployment web has the strategy \
                Recreate; what helps: ";
    let by_its_annotation = "; by its annotation surge.evacuation.dev/one-at-a-time no replacement runs beside the pod; \
                             what helps: ";
    let table = vec![
        ("of a Deployment", of_set(json!({})), evicting(), true, None),
        ("of a StatefulSet", pod(json!({})), evicting(), false, None),
        ("it may run beside another", annotated("false"), evicting(), true, None),
        ("it runs alone", annotated("true"), evicting(), false, Some(by_its_annotation)),
        ("it may run alone", annotated("yes"), evicting(), false, Some(by_its_annotation)),
        (
            "the responder said that there is none",
            of_set(json!({})),
            answered(REPLACEMENT_RESPONDER, NO_REPLACEMENT_REASON),
            false,
            Some(said),
        ),
        ("another said so", of_set(json!({})), answered("self", NO_REPLACEMENT_REASON), true, None),
    ];
    for (what, pod, evacuation, is_named, cause) in table {
        let message = held(&pod, &evacuation, &[none()], &[]).blocker.unwrap().message;
        let named = message.contains("register the responder surge.evacuation.dev/replacement");
        assert_eq!(named, is_named, "{what}: {message}");
        let unless =
            message.contains("unless two of its pods must not run at once (strategy Recreate, maxSurge 0, ");
        assert_eq!(unless, is_named, "{what}: {message}");
        let rest = ", 3 of 3 pods must be healthy)".to_owned() + cause.unwrap_or("; what helps: ");
        assert!(message.contains(&rest), "{what}: {message}");
    }
}

#[test]
fn a_registered_replacement_responder_is_told_by_what_became_of_it_and_never_to_be_registered() {
    let alone = pod(json!({"metadata": {"ownerReferences": [{
        "kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": true,
    }]}}));
    let said = |patch: Value| {
        with(evicting(), |status| {
            let mut responder = json!({
                "name": REPLACEMENT_RESPONDER, "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600,
            });
            merge(&mut responder, patch);
            status.responders = Some(vec![serde_json::from_value(responder).unwrap()]);
        })
    };
    let accepted = |at: i64| {
        said(
            json!({"state": "Completed", "answer": "Accept", "answerTime": time(at), "reason": "ReplacementReady"}),
        )
    };
    let (ready, lasts) =
        ("; responder surge.evacuation.dev/replacement accepted; what helps: ", Some(at(1001)));
    let again =
        "see why its replacement was not ready, and drain again; or let the budget allow one disruption: ";
    let table = [
        // Judged at 1000.
        (accepted(986), "slow", ready, "nothing is needed, because the budget counts the replacement", lasts),
        (accepted(985), "stuck", ready, "let the budget allow one disruption: ", None),
        (
            said(json!({"state": "Interrupted"})),
            "stuck",
            "; responder surge.evacuation.dev/replacement did not answer; what helps: ",
            "see if the built-in responders work (kubectl evacuate check), and drain again; or let the budget ",
            None,
        ),
        (
            said(json!({"state": "Interrupted", "answer": "Delay", "message": "web-2 is not ready"})),
            "stuck",
            " was not done when its delay ended: web-2 is not ready; what helps: ",
            again,
            None,
        ),
        (
            said(json!({"state": "Completed", "answer": "Refuse", "message": "not ready within 600 s"})),
            "stuck",
            "; responder surge.evacuation.dev/replacement refused: not ready within 600 s; what helps: ",
            again,
            None,
        ),
    ];
    for (evacuation, word, known, way_out, changes_at) in table {
        let judgement = held(&alone, &evacuation, &[budget(0, 1, 1, 1, json!({}))], &[]);
        let expected = format!("Blocked BudgetAllowsNone PodDisruptionBudget/db {word} 0 -");
        assert_eq!((line(&judgement), judgement.changes_at), (expected, changes_at), "{known}");
        let message = judgement.blocker.unwrap().message;
        assert!(message.contains(&format!("{known}{way_out}")), "{message}");
        assert!(!message.contains("register the responder"), "{message}");
    }
}

#[test]
fn a_pod_that_waits_to_be_asked_is_stuck_only_when_its_budget_never_has_room() {
    let waits = |e| blocked(e, "AwaitingTurn", "budget db lets no further pod be asked now");
    let in_line = || {
        let mut e = waits(asking());
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = ResponderState::Inactive;
        e
    };
    let healthy = pod(json!({}));
    let judged = |budgets: &[_], beside, unready: &[_]| {
        let e = in_line();
        let mut seen = drained(&healthy, Standing::Asked(&e));
        seen.budgets = budgets.iter().collect();
        seen.unready = Some(unready.iter().collect());
        seen.asked_beside = beside;
        judge(&seen, at(1000))
    };
    let slow = "Waiting BudgetExhausted PodDisruptionBudget/db slow 0 -";
    let table = [
        ("another pod is asked", judged(&[budget(1, 3, 2, 3, json!({}))], Some("db-1"), &[]), slow),
        (
            "the one that is asked is not ready for long",
            judged(&[exhausted()], Some("db-1"), &[pod(unready())]),
            slow,
        ),
        ("the room is not seen yet", judged(&[budget(1, 3, 2, 3, json!({}))], None, &[]), slow),
        (
            "no room ever",
            judged(&[budget(0, 3, 3, 3, json!({}))], None, &[]),
            "Waiting BudgetAllowsNone PodDisruptionBudget/db stuck 0 -",
        ),
        (
            "a replacement has no node",
            judged(&[exhausted()], None, &[unschedulable("db-9")]),
            "Waiting ReplacementUnschedulable Pod/db-9 stuck 0 -",
        ),
        (
            "the one that is asked terminates and does not end",
            judged(&[exhausted()], Some("db-1"), &[terminating_until("db-1", 900)]),
            "Waiting ReplacementTerminating Pod/db-1 stuck 900 -",
        ),
        (
            "the one that is asked terminates",
            judged(&[exhausted()], Some("db-1"), &[terminating_until("db-1", 990)]),
            slow,
        ),
        (
            "two budgets",
            judged(&[exhausted(), exhausted()], Some("db-1"), &[]),
            "Waiting MultipleBudgets PodDisruptionBudget/db stuck 0 -",
        ),
    ];
    for (case, judgement, expected) in table {
        assert_eq!(line(&judgement), expected, "{case}");
    }
    let beside = judged(&[budget(1, 3, 2, 3, json!({}))], Some("db-1"), &[]).blocker.unwrap();
    assert_eq!(
        beside.message,
        "budget db lets no further pod be asked until pod db-1, which was asked, is gone; what helps: nothing is \
         needed while that pod moves, and this shows what holds it: kubectl evacuate why db-1 -n shop"
    );
}

#[test]
fn a_budget_that_nobody_counts_names_the_process_that_would() {
    let healthy = pod(json!({}));
    // Judged at 1000.
    for (evicted, expected) in [
        (990, "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -"),
        (900, "Blocked BudgetExhausted PodDisruptionBudget/db slow 900 -"),
        (850, "Blocked BudgetExhausted PodDisruptionBudget/db stuck 850 -"),
    ] {
        let disrupted = json!({"status": {"disruptedPods": {"db-2": time(evicted), "db-3": time(999)}}});
        let judgement = held(&healthy, &evicting(), &[budget(0, 3, 2, 3, disrupted)], &[]);
        assert_eq!(line(&judgement), expected);
        let next =
            [(990, 1005), (900, 1050)].iter().find(|(at, _)| *at == evicted).map(|(_, next)| at(*next));
        assert_eq!(judgement.changes_at, next, "{evicted}");
        let message = judgement.blocker.unwrap().message;
        let named = message
            .contains(&format!("since the eviction of pod db-2 at {}", time(evicted).replace("+00:00", "Z")));
        let helps = message.contains("kubectl get lease kube-controller-manager -n kube-system");
        assert_eq!((named, helps), (evicted < 990, evicted < 990), "{message}");
    }
}

#[test]
fn a_deletion_that_counts_says_when_it_passes_and_is_never_stuck() {
    let entry = Requester {
        owner: "rs-controller".to_owned(),
        budget_patience_seconds: Some(1800),
        ..due(2000, DeadlineAction::GiveUp).remove(0)
    };
    let mut counted = evicting_for(vec![entry]);
    let status = counted.status.as_mut().unwrap();
    status.requesters[0].owner = "rs-controller".to_owned();
    status.eviction.get_or_insert_default().budget_blocked_time = Some(at(60).into());
    let healthy = pod(json!({}));
    for budget in [exhausted(), budget(0, 3, 3, 3, json!({}))] {
        let judgement = held(&healthy, &counted, &[budget], &[]);
        let blocker = judgement.blocker.unwrap();
        assert!(!blocker.stuck, "{}", blocker.message);
        for part in [
            format!(
                "rs-controller counts as an eviction, and passes with its first try from {}",
                super::super::text::time(at(1860))
            ),
            "kubectl delete pod db-0 -n shop".to_owned(),
            "kubectl label namespace shop gateway.evacuation.dev/count-".to_owned(),
        ] {
            assert!(blocker.message.contains(&part), "{part:?} is not in {}", blocker.message);
        }
        assert!(!blocker.message.contains("nothing is needed"), "{}", blocker.message);
        assert_eq!(judgement.changes_at, Some(at(1860)));
    }
}
