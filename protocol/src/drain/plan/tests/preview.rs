//! The plan of a drain that is not stored.

use evacuation_api::{PlannedAct, PlannedPod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;
use crate::{drain::Surroundings, responders::work};

/// The sight of the server: node `a` with these pods, and a budget that lets none of app `db` go.
fn sight(pods: &[(&str, Value)]) -> DrainSight {
    let mut cluster = Cluster::new(&["a"]);
    for (name, more) in pods {
        cluster.add_pod("a", name, more);
    }
    let pods = cluster.pods.into_iter().map(|(node, mut pod)| {
        pod.spec.get_or_insert_default().node_name = Some(node);
        pod
    });
    let surroundings = Surroundings::new(vec![budget(&json!({"matchLabels": {"app": "db"}}))], Vec::new());
    DrainSight { nodes: cluster.nodes, pods: pods.collect(), surroundings, ..DrainSight::default() }
}

/// A budget with that selector that lets no pod go.
fn budget(selector: &Value) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": "db", "namespace": "ns"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }))
    .unwrap()
}

fn acts(status: &NodeEvacuationStatus) -> Vec<String> {
    let brief = |pod: &PlannedPod| {
        let mut words = vec![format!("{:?}", pod.act), pod.pod.clone()];
        words.extend(pod.reasons.iter().map(|why| why.reason.clone()));
        words.join(" ")
    };
    status.plan.iter().map(brief).collect()
}

#[test]
fn a_plan_names_each_pod_with_its_act_and_what_holds_it_back() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let sight = sight(&[
        ("web", json!({})),
        ("db", json!({"metadata": {"labels": {"app": "db"}}, "status": {"conditions": ready}})),
        ("job", json!({"status": {"phase": "Succeeded"}})),
        ("scratch", json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})),
        ("static", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
    ]);
    let status = preview(&drain(json!({})), &sight, at(0));
    assert_eq!(
        acts(&status),
        [
            "Ask ns/db",
            "Ask ns/web",
            "Delete ns/job",
            "Refuse ns/scratch LocalStorage",
            "Leave ns/static Mirror"
        ]
    );
    let held: Vec<_> =
        status.blockers.iter().map(|b| (b.pod.as_deref().unwrap(), b.reason.as_str())).collect();
    assert_eq!(held, [("ns/db", "BudgetAllowsNone"), ("ns/scratch", "LocalStorage")]);
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck));
    let said = "plan: 2 asked, 1 deleted, 1 held back now, 1 refused";
    assert_eq!(status.message.as_deref(), Some(said));
    assert_eq!((status.pods.total, status.pods.blocked, status.pods.waiting), (4, 2, 2));
    assert_eq!(status.nodes[0].phase, Pending);

    let loses = json!({"pods": {"emptyDirData": "Delete", "selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}});
    let status = preview(&drain(loses), &sight, at(0));
    assert_eq!(acts(&status)[..2], ["Ask ns/scratch LocalStorage", "Ask ns/web"]);
    assert_eq!((status.verdict, status.blockers.len()), (Some(DrainVerdict::Waiting), 0));
}

#[test]
fn a_plan_names_no_selector_that_would_change_a_drain() {
    let bare = json!({"metadata": {"ownerReferences": [], "labels": {"app": "web"}}});
    let status = preview(&drain(json!({})), &sight(&[("bare", bare)]), at(0));
    assert_eq!(acts(&status), ["Refuse ns/bare Unmanaged"]);
    let message = &status.blockers[0].message;
    assert!(message.contains("--force") && !message.contains("--pod-selector"), "{message}");
}

#[test]
fn a_plan_waits_for_a_pod_that_terminates_already() {
    let (now, past) = (at(0), at(-600));
    let terminating = |end: DateTime<Utc>, more: Value| {
        let mut pod = json!({"metadata": {"deletionTimestamp": end.to_rfc3339(), "labels": {"app": "db"}}});
        pod["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    let mut done = terminating(at(30), json!({}));
    done["status"] = json!({"phase": "Succeeded"});
    let mut scratch = terminating(at(30), json!({}));
    scratch["spec"] = json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]});
    let sight = sight(&[
        ("web", json!({})),
        ("db", terminating(at(30), json!({}))),
        ("done", done),
        ("kept", terminating(past, json!({"finalizers": ["example.com/backup"]}))),
        ("scratch", scratch),
    ]);
    let status = preview(&drain(json!({})), &sight, now);
    let waited = ["Ask ns/web", "Wait ns/db", "Wait ns/kept", "Wait ns/done"];
    assert_eq!(acts(&status), [&waited[..], &["Refuse ns/scratch LocalStorage"]].concat());
    let held: Vec<_> =
        status.blockers.iter().map(|b| (b.pod.as_deref().unwrap(), b.reason.as_str())).collect();
    assert_eq!(held, [("ns/kept", "Finalizer")], "no budget holds a pod that terminates");
    let said = "plan: 1 asked, 0 deleted, 3 waited for, 1 held back now, 1 refused";
    assert_eq!(status.message.as_deref(), Some(said));
    assert_eq!((status.pods.total, status.pods.waiting, status.pods.evicting), (5, 1, 4));

    let loses = json!({"pods": {"emptyDirData": "Delete"}});
    let status = preview(&drain(loses), &sight, now);
    assert_eq!(acts(&status)[3..], ["Wait ns/scratch", "Wait ns/done"], "the drain causes no loss");
    let skips = json!({"pods": {"skipTerminatingSeconds": 30}});
    let status = preview(&drain(skips), &sight, now);
    assert_eq!(acts(&status).last().map(String::as_str), Some("Leave ns/kept Terminating"));
}

#[test]
fn a_plan_tells_of_cordoned_and_missing_nodes_and_is_bounded() {
    let pods: Vec<String> =
        (0..=evacuation_api::MAX_PLANNED_PODS).map(|number| format!("p{number}")).collect();
    let pods: Vec<_> = pods.iter().map(|name| (name.as_str(), json!({}))).collect();
    let mut sight = sight(&pods);
    sight.nodes[0].spec.get_or_insert_default().unschedulable = Some(true);
    let status = preview(&drain(json!({"nodes": {"names": ["a", "b"]}})), &sight, at(0));
    let nodes: Vec<_> =
        status.nodes.iter().map(|node| (node.name.as_str(), node.phase, node.cordoned)).collect();
    assert_eq!(nodes, [("a", Pending, CordonOwner::Others), ("b", Failed, CordonOwner::No)]);
    assert_eq!((status.plan.len(), status.plan_omitted), (pods.len() - 1, 1));
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck), "a node is missing");
    assert!(status.plan.iter().all(|pod| pod.act == PlannedAct::Ask));
}

#[test]
fn a_plan_of_too_many_pods_names_each_node_with_a_pod_that_is_refused() {
    let scratch = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    for (node, pods, more) in [
        ("a", evacuation_api::MAX_PLANNED_PODS, &json!({})),
        ("b", evacuation_api::MAX_PLANNED_PODS, &scratch),
        ("c", 1, &scratch),
    ] {
        for number in 0..pods {
            cluster.add_pod(node, &format!("{node}{number}"), more);
        }
    }
    let pods = cluster.pods.into_iter().map(|(node, mut pod)| {
        pod.spec.get_or_insert_default().node_name = Some(node);
        pod
    });
    let sight = DrainSight { nodes: cluster.nodes, pods: pods.collect(), ..DrainSight::default() };
    let status = preview(&drain(json!({"nodes": {"names": ["a", "b", "c"]}})), &sight, at(0));
    let refused = status.plan.iter().filter(|pod| pod.act == PlannedAct::Refuse);
    let nodes: BTreeSet<_> = refused.map(|pod| pod.node.as_str()).collect();
    assert_eq!(nodes, ["b", "c"].into());
    let omitted = i32::try_from(evacuation_api::MAX_PLANNED_PODS).unwrap() + 1;
    assert_eq!((status.plan.len(), status.plan_omitted), (evacuation_api::MAX_PLANNED_PODS, omitted));
}

#[test]
fn a_plan_tells_in_how_many_rounds_the_pods_of_a_budget_go() {
    let pods: Vec<String> = (0..5).map(|number| format!("p{number}")).collect();
    let labels = json!({"metadata": {"labels": {"app": "db"}}});
    let pods: Vec<_> = pods.iter().map(|name| (name.as_str(), labels.clone())).collect();
    let mut sight = sight(&pods);
    for (expected, said) in [
        (
            7,
            "plan: 5 asked, 0 deleted, 0 held back now; budget ns/db allows 2 at a time, so its 5 pods go in 3 rounds",
        ),
        (10, "plan: 5 asked, 0 deleted, 0 held back now"),
        (5, "plan: 5 asked, 0 deleted, 5 held back now"),
    ] {
        let mut budget = budget(&json!({"matchLabels": {"app": "db"}}));
        let status = budget.status.as_mut().unwrap();
        (status.expected_pods, status.desired_healthy) = (Some(expected), Some(5));
        status.disruptions_allowed = Some(expected - 5);
        sight.surroundings = Surroundings::new(vec![budget], Vec::new());
        let planned = preview(&drain(json!({})), &sight, at(0));
        assert_eq!(planned.message.as_deref(), Some(said));
    }
}

/// # Attack
///
/// - Attacker: a tenant with a budget of 100,000 values and with hundreds of pods that never become ready
/// - Act: has the selector read for each pair of its pods, whenever a drain is planned
/// - Promise: 8
#[test]
fn a_plan_reads_a_selector_once_and_compares_it_once_with_each_pod() {
    const UNREADY: usize = 500;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let labels = json!({"metadata": {"labels": {"app": "db"}}, "status": {"conditions": ready}});
    let names: Vec<String> = (0..5).map(|number| format!("p{number}")).collect();
    let pods: Vec<_> = names.iter().map(|name| (name.as_str(), labels.clone())).collect();
    let mut sight = sight(&pods);
    let pending = |number: usize| -> Pod {
        let name = format!("u{number}");
        let metadata = json!({"name": name, "namespace": "ns", "uid": name, "labels": {"app": "db"}});
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Pending"}})).unwrap()
    };
    let mut values: Vec<String> = (0..100_000).map(|number| format!("v{number}")).collect();
    values.insert(0, "db".to_owned());
    let large = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]});
    work::PACKED.set(0);
    work::COMPARED.set(0);
    let mut large = budget(&large);
    // It expects more pods than it needs, so that it waits for the unready ones.
    large.status.as_mut().unwrap().expected_pods = Some(2);
    sight.surroundings = Surroundings::new(vec![large], (0..UNREADY).map(pending).collect());
    let status = preview(&drain(json!({})), &sight, at(0));
    assert_eq!((status.pods.blocked, status.blockers[0].reason.as_str()), (5, "BudgetExhausted"));
    assert_eq!(work::PACKED.get(), 1);
    let compared = work::COMPARED.get();
    assert!(compared <= UNREADY + 3 * pods.len(), "{compared}");

    let selector = json!({"pods": {"selector": {"matchLabels": {"app": "db"}}}});
    preview(&drain(selector), &sight, at(0));
    assert_eq!(work::PACKED.get(), 2, "the selector of the drain is read once, too");
}
