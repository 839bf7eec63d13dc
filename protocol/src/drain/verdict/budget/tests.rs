use evacuation_api::{DeadlineAction, DrainBlocker};
use serde_json::json;

use super::super::{
    PodJudgement, Standing,
    fixtures::{
        asking_done, blocked, budget, drained, due, evicting, evicting_for, exhausted, held, line, pod,
        starting, sync_failed, unready, unschedulable, waiting,
    },
    judge,
};
use crate::testing::{at, evacuation};

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
            "no pod is expected yet",
            held(&healthy, &evicting(), &[budget(0, 0, 0, 0, json!({}))], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
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
            "the budget could not be computed before its last change",
            held(&healthy, &evicting(), &[sync_failed(1)], &[]),
            "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -",
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
        ("no replacement yet", &healthy, vec![], slow),
        ("another makes the room", &healthy, vec![unschedulable("db-1"), starting("db-2")], slow),
        (
            "another makes half of the room, and one pod is unhealthy",
            &healthy,
            vec![unschedulable("db-1"), starting("db-2")],
            "Blocked ReplacementUnschedulable Pod/db-1 stuck 0 -",
        ),
        ("terminating", &healthy, vec![leaving], slow),
        ("ended", &healthy, vec![ended], slow),
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
        ("ContainerCreating", ""),
        ("PodInitializing", ""),
    ] {
        let expected = if expected.is_empty() {
            slow.to_owned()
        } else {
            format!("Blocked {expected} Pod/db-1 stuck 0 -")
        };
        let judgement = held(&healthy, &evicting(), &[exhausted()], &[waiting("db-1", reason)]);
        assert_eq!(line(&judgement), expected, "{reason}");
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
        pod.unready = unready;
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
fn messages_name_the_cause_and_the_way_out() {
    let healthy = pod(json!({}));
    let message = |judgement: PodJudgement| judgement.blocker.unwrap().message;
    let table = [
        (
            message(held(&healthy, &evicting(), &[budget(0, 3, 3, 3, json!({}))], &[])),
            "budget db allows no disruption even when all of its pods are healthy (maxUnavailable 0, 3 of \
             3 pods must be healthy); to continue: let the budget allow one disruption",
        ),
        (
            message(held(&healthy, &evicting(), &[sync_failed(2)], &[])),
            "the disruption controller cannot compute budget db: db.acme.io does not implement the scale \
             subresource; to continue: ",
        ),
        (
            message(held(&healthy, &evicting(), &[exhausted()], &[unschedulable("db-1")])),
            "budget db waits for pod db-1, which cannot be scheduled: 0/3 nodes are available: 1 node(s) \
             were unschedulable; to continue: add capacity or uncordon a node; two drains",
        ),
        (
            message(held(&healthy, &evicting(), &[exhausted()], &[waiting("db-1", "RunContainerError")])),
            "budget db waits for pod db-1, whose container app does not run: RunContainerError: said of \
             RunContainerError; to continue: ",
        ),
        (
            message(held(&healthy, &evicting_for(due(5000, DeadlineAction::Delete)), &[exhausted()], &[])),
            "budget db allows no disruption now: 2 of its pods are healthy, and 2 must be; to continue: \
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
