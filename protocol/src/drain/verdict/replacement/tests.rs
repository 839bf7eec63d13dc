use evacuation_api::{DeadlineAction, DrainBlocker, Evacuation};
use serde_json::{Value, json};

use super::super::{
    PodJudgement, Standing,
    fixtures::{
        budget, drained, due, evicting, evicting_for, exhausted, held, line, merge, pod, starting,
        terminating_until, time, unready,
    },
    judge,
};
use super::*;
use crate::testing::at;

/// Changes the pod as that says.
fn with(pod: &Pod, patch: Value) -> Pod {
    let mut value = serde_json::to_value(pod).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_pod_that_terminates_is_hope_until_it_should_have_ended_unless_another_takes_its_place() {
    let healthy = pod(json!({}));
    let slow = "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -";
    // Judged at 1000.
    for (what, unready, expected, changes_at) in [
        ("it has time", vec![terminating_until("db-1", 1020)], slow, Some(1050)),
        ("the kubelet needs a moment", vec![terminating_until("db-1", 971)], slow, Some(1001)),
        (
            "it does not end",
            vec![terminating_until("db-1", 970)],
            "Blocked ReplacementTerminating Pod/db-1 slow 970 -",
            Some(1030),
        ),
        (
            "it does not end for a minute",
            vec![terminating_until("db-1", 940)],
            "Blocked ReplacementTerminating Pod/db-1 stuck 940 -",
            None,
        ),
        ("another takes its place", vec![terminating_until("db-1", 0), starting("db-2")], slow, None),
    ] {
        let judgement = held(&healthy, &evicting(), &[exhausted()], &unready);
        assert_eq!(line(&judgement), expected, "{what}");
        assert_eq!(judgement.changes_at, changes_at.map(at), "{what}");
    }
}

#[test]
fn a_pod_that_does_not_end_is_named_with_what_keeps_it_and_the_way_out() {
    let healthy = pod(json!({}));
    let hung = terminating_until("db-1", 900);
    let kept = with(&hung, json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let beside = with(&hung, json!({"spec": {"nodeName": "n", "containers": []}}));
    let ended = format!(
        "budget db waits for pod db-1, which still terminates, and whose grace period ended at {}",
        time(900).replace("+00:00", "Z")
    );
    for (other, silent, rest) in [
        (
            &kept,
            false,
            ", and which keeps the finalizer example.com/hold; what helps: repair the controller that removes \
             the finalizers of that pod; or remove them all, and what they guard is not cleaned up: kubectl \
             patch pod db-1 -n shop --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
        ),
        (
            &hung,
            false,
            "; what helps: look at the events of that pod and at the kubelet of its node; or, once its \
             containers have stopped, run kubectl delete pod db-1 -n shop --grace-period=0 --force",
        ),
        (
            &beside,
            true,
            ", because node n does not report since 2024-10-04T00:00:05Z; what helps: repair the node; or, once \
             it is certain that the node is off, have its pods removed: kubectl taint node n \
             node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        ),
    ] {
        let (e, budget) = (evicting(), exhausted());
        let mut seen = drained(&healthy, Standing::Asked(&e));
        seen.budgets = vec![&budget];
        seen.unready = Some(vec![other]);
        seen.node_silent_since = silent.then(|| at(5));
        let message = judge(&seen, at(1000)).blocker.unwrap().message;
        assert_eq!(message, format!("{ended}{rest}"));
    }
}

#[test]
fn a_pod_that_no_scheduler_looks_at_is_named_after_a_minute_with_its_scheduler_or_its_gates() {
    let healthy = pod(json!({}));
    let created = |at| json!({"metadata": {"creationTimestamp": time(at)}});
    let waits = |at, spec: Value| {
        let mut spec = spec;
        merge(&mut spec, json!({"containers": []}));
        let mut patch = created(at);
        merge(&mut patch, json!({"spec": spec}));
        with(&starting("db-1"), patch)
    };
    let of = |other: Pod| held(&healthy, &evicting(), &[exhausted()], &[other]);
    let slow = "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -";
    assert_eq!(line(&of(waits(941, json!({})))), slow, "it has a minute");
    let placed = of(waits(940, json!({"nodeName": "n"})));
    assert_eq!(line(&placed), "Blocked ReplacementUnready Pod/db-1 stuck 940 -", "its kubelet is late");
    for (spec, cause, way_out) in [
        (
            json!({}),
            "which has no node, and scheduler default-scheduler has not said why",
            "see if the kube-scheduler works: kubectl get lease kube-scheduler -n kube-system",
        ),
        (
            json!({"schedulerName": "gangs"}),
            "which has no node, and scheduler gangs has not said why",
            "see if the scheduler gangs works; or have the owner name another one (spec.schedulerName)",
        ),
        (
            json!({"schedulingGates": [{"name": "example.com/quota"}, {"name": "b"}]}),
            "which no scheduler may place before its scheduling gates are removed: example.com/quota, b",
            "see if the controller that removes the gates works, such as that of a quota; or remove them from \
             spec.schedulingGates of the pod",
        ),
    ] {
        let judgement = of(waits(940, spec));
        assert_eq!(line(&judgement), "Blocked ReplacementUnschedulable Pod/db-1 stuck 940 -");
        let message = judgement.blocker.unwrap().message;
        assert_eq!(message, format!("budget db waits for pod db-1, {cause}; what helps: {way_out}"));
    }
}

/// Judges at that time a pod of whose budget nobody creates the third pod.
fn missing(pod: &Pod, evacuation: &Evacuation, patch: Value, now: i64) -> PodJudgement {
    let budget = budget(0, 2, 2, 3, patch);
    let mut seen = drained(pod, Standing::Asked(evacuation));
    seen.budgets = vec![&budget];
    seen.unready = Some(Vec::new());
    judge(&seen, at(now))
}

#[test]
fn a_pod_that_nobody_creates_holds_the_drain_from_when_it_was_first_missed() {
    let healthy = pod(json!({}));
    let e = evicting();
    let blocker = |since: i64| DrainBlocker {
        since: at(since).into(),
        ..missing(&healthy, &e, json!({}), 1000).blocker.unwrap()
    };
    let other = DrainBlocker { reason: "BudgetExhausted".to_owned(), ..blocker(0) };
    let stuck = |since| (format!("Blocked ReplacementMissing StatefulSet/db stuck {since} -"), None);
    let slow =
        |since: i64| (format!("Blocked ReplacementMissing StatefulSet/db slow {since} -"), Some(since + 60));
    for (what, before, expected) in [
        ("first seen", vec![], slow(1000)),
        ("first seen, and held by something else before", vec![other], slow(1000)),
        ("seen before", vec![blocker(941)], slow(941)),
        ("seen a minute ago", vec![blocker(940)], stuck(940)),
    ] {
        let mut judgement = missing(&healthy, &e, json!({}), 1000);
        judgement.keep_since(&before, at(1000));
        let (line_, changes_at) = expected;
        assert_eq!((line(&judgement), judgement.changes_at), (line_, changes_at.map(at)), "{what}");
    }
    // Where nobody remembers, the time since the pod is blocked counts.
    for (now, expected) in [(59, slow(0)), (60, stuck(0))] {
        let judgement = missing(&healthy, &e, json!({}), now);
        assert_eq!((line(&judgement), judgement.changes_at), (expected.0, expected.1.map(at)), "at {now}");
    }
    assert_eq!(
        blocker(0).message,
        "budget db waits for a pod that is not there: it expects 3 pods, and 1 of them neither runs nor starts; \
         what helps: see in the events of StatefulSet/db why it creates no pod, such as for a quota of the \
         namespace; or have the pod deleted at a deadline, which the budget does not prevent: kubectl create \
         evacuation db-0 -n shop --deadline=10m --at-deadline=delete"
    );
}

#[test]
fn a_pod_that_is_missed_holds_nothing_for_ever_that_ends_otherwise() {
    let healthy = pod(json!({}));
    let of_job = pod(json!({"spec": {"restartPolicy": "Never", "containers": []}}));
    let due = evicting_for(due(5000, DeadlineAction::Delete));
    let evicted = json!({"status": {"disruptedPods": {"db-2": time(990)}}});
    let exhausted = "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -";
    for (what, judgement, expected) in [
        (
            "a pod that ends by itself",
            missing(&of_job, &evicting(), json!({}), 1000),
            "Blocked ReplacementMissing StatefulSet/db slow 0 -",
        ),
        (
            "a deadline deletes the pod",
            missing(&healthy, &due, json!({}), 1000),
            "Blocked ReplacementMissing StatefulSet/db slow 0 5000",
        ),
        ("an eviction that is not counted yet", missing(&healthy, &evicting(), evicted, 1000), exhausted),
        ("the others were not read", held(&healthy, &evicting(), &[self::exhausted()], &[]), exhausted),
    ] {
        let before = [judgement.blocker.clone().unwrap()];
        let mut kept = judgement;
        kept.keep_since(&before, at(1000));
        assert_eq!(line(&kept), expected, "{what}");
    }
}

#[test]
fn an_unready_pod_itself_is_named_before_one_that_is_missing() {
    let judgement = missing(&pod(unready()), &evicting(), json!({"status": {"currentHealthy": 1}}), 1000);
    assert_eq!(line(&judgement), "Blocked UnhealthyPod PodDisruptionBudget/db stuck 0 -");
}

#[test]
fn a_condition_without_a_time_counts_from_the_creation_of_its_pod() {
    let healthy = pod(json!({}));
    for written in [json!(null), json!("0001-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")] {
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": written});
        let patch =
            json!({"metadata": {"creationTimestamp": time(970)}, "status": {"conditions": [condition]}});
        let starting = with(&starting("db-1"), patch);
        let judgement = held(&healthy, &evicting(), &[exhausted()], &[starting]);
        assert_eq!(line(&judgement), "Blocked BudgetExhausted PodDisruptionBudget/db slow 0 -", "{written}");
        assert_eq!(judgement.changes_at, Some(at(1030)), "{written}");

        let sick = with(&pod(unready()), json!({"status": {"conditions": [condition]}}));
        let judgement = held(&sick, &evicting(), &[budget(0, 1, 2, 3, json!({}))], &[]);
        assert_eq!(line(&judgement), "Blocked UnhealthyPod PodDisruptionBudget/db stuck 0 -", "{written}");
    }
}
