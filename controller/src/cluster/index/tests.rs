use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use serde_json::{Value, json};

use super::*;

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, uid: &str, version: &str, labels: &Value) -> Pod {
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version, "labels": labels},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n1"},
    }))
}

fn evacuation(name: &str, pod: &str, uid: &str, version: &str) -> Evacuation {
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid"), "resourceVersion": version},
        "spec": {"target": {"pod": {"name": pod, "uid": uid}}},
    }))
}

fn budget(name: &str, version: &str, selector: &Value, allowed: i32) -> PodDisruptionBudget {
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "resourceVersion": version},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }))
}

fn names(touched: &BTreeSet<ObjectKey>) -> Vec<&str> {
    touched.iter().map(|key| key.name.as_str()).collect()
}

#[test]
fn a_pod_touches_the_evacuations_that_target_it_and_no_others() {
    let mut index = Index::default();
    index.apply(evacuation("a", "p", "1", "1"));
    index.apply(evacuation("b", "q", "2", "2"));
    assert_eq!(names(&index.apply(pod("p", "1", "3", &json!({}))).touched), ["a"]);
    assert!(names(&index.apply(pod("r", "9", "4", &json!({}))).touched).is_empty());
}

#[test]
fn a_rehearsal_follows_its_pod_and_is_none_of_the_pods_evacuations() {
    let mut index = Index::default();
    let mut rehearsal = evacuation("test", "a", "1", "1");
    rehearsal.spec.rehearsal = true;
    index.apply(rehearsal);
    index.apply(evacuation("real", "a", "1", "2"));
    let key = ObjectKey::new("ns", "a");
    let named = |found: Vec<Arc<Evacuation>>| -> Vec<_> {
        found.iter().map(|evacuation| evacuation.metadata.name.clone().unwrap()).collect()
    };
    assert_eq!(named(index.evacuations_of(&key)), ["real"]);
    assert_eq!(named(index.rehearsals_of(&key)), ["test"]);
    let touched = index.apply(pod("a", "1", "3", &json!({}))).touched;
    assert_eq!(names(&touched), ["real", "test"]);
}

#[test]
fn a_finished_evacuation_is_not_touched_by_its_pod() {
    let mut index = Index::default();
    let mut finished = evacuation("a", "p", "1", "1");
    finished.status = Some(read(json!({"conditions": [
        {"type": "Finished", "status": "True", "reason": "Evicted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]})));
    index.apply(finished);
    assert!(index.apply(pod("p", "1", "3", &json!({}))).touched.is_empty());
}

#[test]
fn a_target_is_gone_only_when_its_uid_was_seen_to_go() {
    let mut index = Index::default();
    let target = evacuation("a", "p", "1", "1");
    index.apply(target.clone());
    assert!(matches!(index.target(&target), TargetPod::Unknown), "the watch of pods may lag behind");
    index.apply(pod("p", "1", "3", &json!({})));
    assert!(matches!(index.target(&target), TargetPod::Live(_)));
    let update = index.delete(&pod("p", "1", "4", &json!({})));
    assert_eq!(names(&update.touched), ["a"]);
    assert!(matches!(index.target(&target), TargetPod::Gone));
}

#[test]
fn a_pod_of_the_same_name_and_another_uid_takes_the_place_of_a_target_that_is_gone() {
    let mut index = Index::default();
    let target = evacuation("a", "p", "1", "1");
    index.apply(target.clone());
    index.apply(pod("p", "1", "3", &json!({})));
    index.apply(pod("p", "2", "5", &json!({})));
    assert!(matches!(index.target(&target), TargetPod::Gone));
    let newer = evacuation("b", "p", "3", "6");
    index.apply(newer.clone());
    assert!(matches!(index.target(&newer), TargetPod::Unknown), "a pod that the watch has yet to report");
}

#[test]
fn what_is_known_of_gone_pods_goes_with_the_last_evacuation() {
    let mut index = Index::default();
    let target = evacuation("a", "p", "1", "1");
    index.apply(target.clone());
    index.apply(pod("p", "1", "3", &json!({})));
    index.delete(&pod("p", "1", "4", &json!({})));
    index.delete(&target);
    assert!(index.gone.is_empty() && index.by_pod.is_empty());
}

#[test]
fn budgets_select_as_the_eviction_api_does() {
    let labels = json!({"app": "db", "tier": "gold"});
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let table = [
        (json!(null), false, "an absent selector selects nothing"),
        (json!({}), true, "an empty selector selects everything"),
        (json!({"matchLabels": {"app": "db"}}), true, "a label that matches"),
        (json!({"matchLabels": {"app": "web"}}), false, "a label that differs"),
        (expression("app", "In", json!(["db", "x"])), true, "In"),
        (expression("app", "In", json!(["x"])), false, "In, without the value"),
        (expression("zone", "In", json!(["x"])), false, "In, without the label"),
        (expression("app", "NotIn", json!(["db"])), false, "NotIn, with the value"),
        (expression("zone", "NotIn", json!(["x"])), true, "NotIn, without the label"),
        (expression("tier", "Exists", json!(null)), true, "Exists"),
        (expression("tier", "DoesNotExist", json!(null)), false, "DoesNotExist"),
        (expression("tier", "Bogus", json!(null)), false, "an operator that does not exist"),
    ];
    for (selector, expected, why) in table {
        let mut index = Index::default();
        index.apply(budget("b", "1", &selector, 0));
        let mut elsewhere = budget("c", "1", &json!({}), 0);
        elsewhere.metadata.namespace = Some("other".to_owned());
        index.apply(elsewhere);
        let found = index.budgets_of(&pod("p", "1", "2", &labels));
        assert_eq!(found.len(), usize::from(expected), "{why}");
    }
}

#[test]
fn a_budget_touches_evacuations_when_its_selector_or_its_state_changes_and_not_when_its_numbers_do() {
    let mut index = Index::default();
    index.apply(evacuation("a", "p", "1", "1"));
    index.apply(evacuation("b", "q", "2", "1"));
    index.apply(pod("p", "1", "2", &json!({"app": "p"})));
    index.apply(pod("q", "2", "2", &json!({"app": "q"})));
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    assert_eq!(names(&index.apply(budget("x", "3", &selector("p"), 0)).touched), ["a"]);
    assert!(index.apply(budget("x", "4", &selector("p"), 1)).touched.is_empty());
    // It is about to be computed again.
    let mut changed = budget("x", "5", &selector("p"), 1);
    changed.metadata.generation = Some(1);
    assert_eq!(names(&index.apply(changed).touched), ["a"]);
    assert_eq!(names(&index.apply(budget("x", "6", &selector("q"), 1)).touched), ["a", "b"]);
    assert_eq!(names(&index.delete(&budget("x", "7", &selector("q"), 1)).touched), ["b"]);
}

#[test]
fn a_node_touches_the_evacuations_of_its_pods_when_its_kubelet_goes_silent() {
    let node = |version: &str, ready: &str| -> Node {
        read(json!({
            "metadata": {"name": "n1", "resourceVersion": version},
            "status": {"conditions": [{"type": "Ready", "status": ready}],
                       "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]},
        }))
    };
    let mut index = Index::default();
    index.apply(evacuation("a", "p", "1", "1"));
    let pod = pod("p", "1", "2", &json!({}));
    index.apply(pod.clone());
    assert_eq!(index.node_silent_since(&pod), None, "a node that no watch has shown yet may well answer");
    assert!(index.apply(node("3", "True")).touched.is_empty());
    assert_eq!(index.node_silent_since(&pod), None);
    assert!(index.apply(node("4", "False")).touched.is_empty(), "a kubelet that reports NotReady reports");
    assert_eq!(names(&index.apply(node("5", "Unknown")).touched), ["a"]);
    assert!(index.node_silent_since(&pod).is_some());
    assert!(index.is_node_address("10.0.0.7".parse().unwrap()));
    assert!(!index.is_node_address("10.0.0.8".parse().unwrap()));
}

#[test]
fn a_pruned_pod_keeps_what_decisions_need() {
    let mut pod: Pod = read(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "1", "labels": {"a": "b"},
                     "annotations": {"evacuation.dev/responders": "[]", "refresh.evacuation.dev/enabled": "true",
                                     "refresh.evacuation.dev/after": "1m", "refresh.evacuation.dev/after-restarts": "5", "big": "x"}, "managedFields": [{}]},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "v"}]}], "hostNetwork": true,
                 "nodeName": "n1", "volumes": [{"name": "v"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    pod.project();
    let text = serde_json::to_string(&pod).unwrap();
    for kept in [
        "evacuation.dev/responders",
        "refresh.evacuation.dev/enabled",
        "refresh.evacuation.dev/after\"",
        "refresh.evacuation.dev/after-restarts",
        "\"hostNetwork\":true",
        "n1",
        "Running",
        "10.0.0.1",
        "Ready",
        "\"a\":\"b\"",
    ] {
        assert!(text.contains(kept), "{kept} is kept");
    }
    for dropped in ["big", "managedFields", "env", "volumes"] {
        assert!(!text.contains(dropped), "{dropped} is dropped");
    }
}

#[test]
fn a_pod_that_its_controller_pins_to_its_node_keeps_that_and_no_other_affinity() {
    let owner =
        json!({"apiVersion": "acme.io/v1", "kind": "Agent", "name": "a", "uid": "2", "controller": true});
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let own = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    let spread = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
    let of_key = |key: &str| -> Pod {
        read(json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": "1", "ownerReferences": [owner]},
            "spec": {"containers": [], "nodeName": "n1", "tolerations": [{"key": key, "operator": "Exists"}],
                     "affinity": {"nodeAffinity": own, "podAntiAffinity": spread}},
        }))
    };
    for (key, kept) in [("node.kubernetes.io/unschedulable", true), ("acme.io/any", false)] {
        let mut pod = of_key(key);
        for _ in 0..2 {
            Indexed::project(&mut pod);
            let spec = pod.spec.as_ref().unwrap();
            assert_eq!((spec.affinity.is_some(), spec.tolerations.is_some()), (kept, kept), "{key}");
            assert!(spec.affinity.as_ref().is_none_or(|affinity| affinity.pod_anti_affinity.is_none()));
        }
        let rules = evacuation_protocol::DrainFilters {
            daemon_sets: evacuation_api::DaemonSetRule::Skip,
            ..evacuation_protocol::DrainFilters::default()
        };
        let picked = evacuation_protocol::pick([&pod], &rules, chrono::Utc::now());
        assert_eq!((picked.skipped.len(), picked.evacuate.len()), (kept.into(), (!kept).into()), "{key}");
    }
}

#[test]
fn a_pod_of_which_not_all_labels_are_kept_says_so_however_often_it_is_cut() {
    let labels: serde_json::Map<String, Value> = (0..65).map(|n| (format!("l{n}"), json!("x"))).collect();
    let mut many = pod("p", "1", "1", &Value::Object(labels.clone()));
    let mut few = pod("p", "1", "1", &labels.into_iter().take(64).collect());
    for _ in 0..2 {
        Indexed::project(&mut many);
        Indexed::project(&mut few);
        let kept = many.metadata.labels.clone().unwrap();
        assert_eq!((kept.len(), kept.contains_key(evacuation_protocol::LABELS_CUT)), (65, true));
        assert_eq!(few.metadata.labels.as_ref().unwrap().len(), 64);
    }
}
