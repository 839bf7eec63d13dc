//! The three places that say why a budget holds a pod: the condition Blocked of its Evacuation, the blocker
//! of its drain, and `kubectl evacuate why`. They agree in each state of a budget.

use evacuation_api::{ConditionType, Evacuation, ResponderEntry};
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use serde_json::{Value, json};

use super::super::{
    PodJudgement, Standing,
    fixtures::{budget, drained, exhausted, pod, starting, sync_failed, time, unready, unschedulable},
    judge,
};
use crate::{
    Act, BudgetView, EvictionOutcome, PodView, Surroundings, World, decide, message_parts, needs_none,
    record_eviction,
    testing::{RUNNING, at, created_in_budget, evacuation, requester, world},
};

/// Numbers of a status that was not computed, or that counts no pod. No text tells them.
const UNTOLD: [i32; 3] = [41, 42, 43];

/// A state of the budgets of a pod.
struct State {
    what: &'static str,
    pod: Pod,
    budgets: Vec<PodDisruptionBudget>,
    /// The other pods of the budget that are not ready.
    unready: Vec<Pod>,
    /// The reason that all three give.
    reason: &'static str,
    /// The reason that the drain and `why` give instead. They also look at the other pods of a budget that
    /// has no room now.
    instead: Option<&'static str>,
}

fn state(what: &'static str, budget: PodDisruptionBudget, reason: &'static str) -> State {
    let pod = pod(json!({}));
    State { what, pod, budgets: vec![budget], unready: Vec::new(), reason, instead: None }
}

/// A budget that expects no pod, whose status has a number of healthy pods.
fn expects_none(patch: Value) -> PodDisruptionBudget {
    budget(0, UNTOLD[0], 0, 0, patch)
}

/// A budget whose status has numbers of before, with what makes them so.
fn before(patch: Value) -> PodDisruptionBudget {
    budget(0, UNTOLD[0], UNTOLD[1], UNTOLD[2], patch)
}

fn states() -> Vec<State> {
    let bare = || pod(json!({"metadata": {"ownerReferences": []}}));
    let failed =
        |seen| before(json!({"status": {"conditions": sync_failed(seen).status.unwrap().conditions}}));
    let uncounted = json!({"status": {"disruptedPods": {"db-2": time(900)}}});
    let needs_all = |limit: Value| budget(0, 3, 3, 3, json!({"spec": limit}));
    let mut second = exhausted();
    second.metadata.name = Some("second".to_owned());
    vec![
        State { unready: vec![starting("db-1")], ..state("no room now", exhausted(), "BudgetExhausted") },
        State {
            instead: Some("ReplacementMissing"),
            ..state("no room, and no pod comes", exhausted(), "BudgetExhausted")
        },
        state("an eviction was not counted", budget(0, 3, 2, 3, uncounted), "BudgetExhausted"),
        state("changed", before(json!({"metadata": {"generation": 3}})), "BudgetExhausted"),
        state(
            "changed, and allowed one before",
            budget(1, UNTOLD[0], UNTOLD[1], UNTOLD[2], json!({"metadata": {"generation": 3}})),
            "BudgetExhausted",
        ),
        state("new", budget(0, 0, 0, 0, json!({"status": null})), "BudgetExhausted"),
        state(
            "new, with the status that the API fills in",
            budget(0, 0, 0, 0, json!({"status": {"observedGeneration": null}})),
            "BudgetExhausted",
        ),
        state("not computed", failed(2), "BudgetNotComputed"),
        state("not computed since its change", failed(1), "BudgetNotComputed"),
        State {
            pod: bare(),
            ..state("counts owned pods only", expects_none(json!({})), "BudgetNotComputed")
        },
        state("scaled to 0", expects_none(json!({})), "BudgetAllowsNone"),
        state("no limit", expects_none(json!({"spec": {"maxUnavailable": null}})), "BudgetAllowsNone"),
        state("maxUnavailable 0", needs_all(json!({})), "BudgetAllowsNone"),
        state(
            "minAvailable of all",
            needs_all(json!({"maxUnavailable": null, "minAvailable": 3})),
            "BudgetAllowsNone",
        ),
        State {
            pod: pod(unready()),
            ..state("an unready pod, never", budget(0, 2, 3, 3, json!({})), "BudgetAllowsNone")
        },
        State { budgets: vec![exhausted(), second], ..state("two budgets", exhausted(), "MultipleBudgets") },
        State {
            pod: pod(unready()),
            instead: Some("UnhealthyPod"),
            ..state("an unready pod", budget(0, 1, 2, 3, json!({})), "BudgetExhausted")
        },
        State {
            unready: vec![unschedulable("db-1")],
            instead: Some("ReplacementUnschedulable"),
            ..state("a replacement without a node", exhausted(), "BudgetExhausted")
        },
    ]
}

/// Returns the Evacuation as the controller leaves it, of a pod whose responders are done.
fn decided(state: &State) -> Evacuation {
    decided_after(evacuation(), state)
}

/// Returns what the controller makes of the Evacuation in that state.
fn decided_after(mut evacuation: Evacuation, state: &State) -> Evacuation {
    let budgets = state.budgets.iter().map(|budget| BudgetView::of(budget, &state.pod)).collect();
    let world = World { pod: PodView::of(Some(&state.pod), "pod-1"), budgets, ..world() };
    for _ in 0..9 {
        let Some(Act::WriteStatus(status)) = decide(&evacuation, &world, at(1)).acts.pop() else {
            return evacuation;
        };
        evacuation.status = Some(*status);
    }
    panic!("{}: the controller writes on and on", state.what);
}

fn blocked(evacuation: &Evacuation) -> &Condition {
    evacuation.status.as_ref().and_then(|status| status.true_condition(ConditionType::Blocked)).unwrap()
}

/// Returns the reason and the cause.
fn said(what: &str, judgement: &PodJudgement) -> (String, String) {
    let blocker = judgement.blocker.as_ref().unwrap_or_else(|| panic!("{what}: nothing holds the pod"));
    (blocker.reason.clone(), message_parts(&blocker.message).0.to_owned())
}

#[test]
fn condition_drain_and_why_give_one_reason_for_each_state_of_a_budget() {
    for mut state in states() {
        for budget in &mut state.budgets {
            budget.spec.get_or_insert_default().selector = Some(LabelSelector::default());
        }
        let what = state.what;
        let evacuation = decided(&state);
        let status = evacuation.status.as_ref().unwrap();
        let blocked = blocked(&evacuation);
        assert_eq!(blocked.reason, state.reason, "{what}: the condition");
        let names: Vec<_> = status.eviction.iter().flat_map(|eviction| &eviction.blocked_by).collect();
        assert_eq!(names.len(), state.budgets.len(), "{what}: {names:?}");

        let mut seen = drained(&state.pod, Standing::Asked(&evacuation));
        seen.budgets = state.budgets.iter().collect();
        seen.unready = Some(state.unready.iter().collect());
        let (reason, cause) = said(what, &judge(&seen, at(1000)));
        assert_eq!(reason, state.instead.unwrap_or(state.reason), "{what}: the drain");
        let is_counted_late = what == "an eviction was not counted";
        if state.instead.is_none() && !is_counted_late {
            assert!(cause.starts_with(&blocked.message), "{what}: {cause:?} and {:?}", blocked.message);
        }

        let around = Surroundings::new(state.budgets.clone(), state.unready.clone());
        let why = judge(&around.drained(&state.pod, Standing::Asked(&evacuation), None), at(1000));
        assert_eq!(said(what, &why), (reason.clone(), cause.clone()), "{what}: why, of a pod that is asked");
        let obstacle = around.obstacle(&state.pod, None, at(1000)).unwrap();
        let obstacle = (obstacle.reason.clone(), message_parts(&obstacle.message).0.to_owned());
        assert_eq!(obstacle, (reason, cause.clone()), "{what}: why, of a pod that is not asked");

        for number in UNTOLD {
            let texts = [&cause, &blocked.message];
            let tells = texts.iter().any(|text| text.contains(&number.to_string()));
            assert!(!tells, "{what}: {texts:?} tell {number}");
        }
    }
}

#[test]
fn the_condition_follows_each_change_of_a_budget() {
    for before in states() {
        let old = decided(&before);
        for state in states() {
            let (followed, fresh) = (decided_after(old.clone(), &state), decided(&state));
            let told = |evacuation| {
                let Condition { reason, message, .. } = blocked(evacuation);
                (reason.clone(), message.clone())
            };
            assert_eq!(told(&followed), told(&fresh), "{}, then {}", before.what, state.what);
        }
    }
}

/// The condition says there that the pod waits to be asked, and why its budget lets it not.
#[test]
fn they_agree_about_a_pod_that_waits_to_be_asked() {
    let mut other = pod(unready());
    other.metadata.name = Some("db-1".to_owned());
    other.metadata.uid = Some("pod-2".to_owned());
    let pod = pod(json!({}));
    let entries = vec![ResponderEntry::named("self")];
    let mut evacuation = created_in_budget(vec![requester("a.b/r")], &RUNNING, &entries.into(), true);
    for (what, mut budget, reason) in [
        ("another pod is asked", exhausted(), "BudgetExhausted"),
        ("no room ever", budget(0, 3, 3, 3, json!({})), "BudgetAllowsNone"),
        ("changed", before(json!({"metadata": {"generation": 3}})), "BudgetExhausted"),
    ] {
        budget.spec.get_or_insert_default().selector = Some(LabelSelector::default());
        let budgets = vec![BudgetView::of(&budget, &pod)];
        let world = World { budgets, no_room: Some("db".to_owned()), ..world() };
        let Some(Act::WriteStatus(status)) = decide(&evacuation, &world, at(1)).acts.pop() else {
            panic!("{what}: the condition does not follow");
        };
        evacuation.status = Some(*status);
        let blocked = blocked(&evacuation);
        assert_eq!(blocked.reason, "AwaitingTurn", "{what}");
        assert!(blocked.message.starts_with("budget db lets no further pod be asked now"), "{blocked:?}");

        let mut seen = drained(&pod, Standing::Asked(&evacuation));
        seen.budgets = vec![&budget];
        seen.unready = Some(vec![&other]);
        seen.asked_beside = Some("db-1");
        let (said_reason, cause) = said(what, &judge(&seen, at(1000)));
        assert_eq!(said_reason, reason, "{what}: the drain");
        let tells = blocked.message.ends_with(&cause) || cause.contains("lets no further pod be asked");
        assert!(tells, "{what}: {cause:?} and {:?}", blocked.message);
        let mut around = Surroundings::new(vec![budget], vec![other.clone()]);
        around.asked.insert("pod-2".to_owned());
        let why = judge(&around.drained(&pod, Standing::Asked(&evacuation), None), at(1000));
        assert_eq!(said(what, &why), (said_reason, cause), "{what}: why");
    }
}

/// A webhook can hide the truth, so a blocked pod is tried once a minute. The refusal tells less.
#[test]
fn the_refusal_of_a_probe_leaves_the_reason_that_is_known() {
    for (what, reason) in [("maxUnavailable 0", "BudgetAllowsNone"), ("two budgets", "MultipleBudgets")] {
        let state = states().into_iter().find(|state| state.what == what).unwrap();
        let evacuation = decided(&state);
        let mut status = evacuation.status.unwrap();
        status.eviction.get_or_insert_default().in_flight = true;
        let refuse = |status, budgets: &[&str]| {
            let budgets = budgets.iter().map(|&name| name.to_owned()).collect();
            let message = "The disruption budget db needs 3 healthy pods and has 3 currently".to_owned();
            let outcome = EvictionOutcome::BudgetExhausted { retry_after_seconds: None, message, budgets };
            record_eviction(status, &outcome, 0.0, at(61))
        };
        let names: Vec<_> =
            state.budgets.iter().map(|budget| budget.metadata.name.as_deref().unwrap()).collect();
        let refused = refuse(&status, &names);
        assert_eq!(refused.conditions, status.conditions, "{what}");
        let eviction = refused.eviction.as_ref().unwrap();
        assert!(!eviction.in_flight && eviction.message.is_some(), "{what}: the attempt is recorded");
        assert_eq!(refused.true_condition(ConditionType::Blocked).unwrap().reason, reason);
        let by_another = refuse(&status, &["another"]);
        let blocked = by_another.true_condition(ConditionType::Blocked).unwrap();
        assert_eq!(blocked.reason, "BudgetExhausted", "{what}: another budget refused");
    }
}

#[test]
fn only_a_budget_that_was_computed_needs_no_pod() {
    for state in states() {
        let evacuation = decided(&state);
        let expected = ["scaled to 0", "no limit"].contains(&state.what);
        assert_eq!(needs_none(evacuation.status.as_ref().unwrap()), expected, "{}", state.what);
    }
}
