//! Pods of DaemonSets that are asked last.

use evacuation_api::MAX_DAEMON_SET_PODS;
use serde_json::{Value, json};

use super::*;

fn owned_by_daemon_set(more: &Value) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "2", "controller": true}]);
    let mut pod = json!({"metadata": {"ownerReferences": owner}});
    for (part, fields) in more.as_object().unwrap() {
        pod[part] = fields.clone();
    }
    pod
}

fn last(more: &Value) -> NodeEvacuation {
    let mut spec = json!({"pods": {"daemonSets": "Last"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    drain(spec)
}

impl Cluster {
    fn add_agent(&mut self, name: &str) {
        self.add_pod("a", name, &owned_by_daemon_set(&json!({})));
    }

    fn remove(&mut self, name: &str) {
        self.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some(name));
        self.evacuations.retain(|e| e.metadata.name.as_deref() != Some(name));
    }
}

#[test]
fn pods_of_daemon_sets_are_asked_when_the_others_are_gone_and_their_replacements_are_left_alone() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_agent("agent-1");
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    cluster.ask(&drain, "p");
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
    cluster.remove("p");
    assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0], "first it records whom it will ask");
    assert_eq!(drain.status.as_ref().unwrap().nodes[0].daemon_set_pods, ["agent-1"]);
    assert_eq!(cluster.plan(&mut drain, 2), ["ask agent-1"]);
    cluster.ask(&drain, "agent-1");
    cluster.remove("agent-1");
    // The DaemonSet tolerates the cordon.
    cluster.add_agent("agent-2");
    assert_eq!(cluster.plan(&mut drain, 3), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Drained]);
    let status = drain.status.as_ref().unwrap();
    assert_eq!((status.pods.total, status.pods.gone), (2, 2));
    assert_eq!(status.nodes[0].daemon_set_pods, [] as [&str; 0], "the end needs no record");
}

#[test]
fn a_daemon_set_pod_that_is_replaced_before_the_last_phase_is_asked_in_it() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_agent("agent-1");
    cluster.begun(&mut drain);
    cluster.remove("agent-1");
    cluster.add_agent("agent-2");
    cluster.remove("p");
    cluster.plan(&mut drain, 1);
    assert_eq!(cluster.plan(&mut drain, 1), ["ask agent-2"]);
}

#[test]
fn pods_that_come_during_the_last_phase_go_first() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({"cordon": "Never"})));
    cluster.add_agent("agent-1");
    for _ in 0..2 {
        assert_eq!(cluster.plan(&mut drain, 0), [] as [&str; 0]);
    }
    assert_eq!(cluster.plan(&mut drain, 0), ["ask agent-1"]);
    cluster.ask(&drain, "agent-1");
    cluster.add_pod("a", "late", &json!({}));
    assert_eq!(cluster.plan(&mut drain, 1), ["ask late"]);
    cluster.remove("agent-1");
    cluster.add_agent("agent-2");
    cluster.remove("late");
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Drained]);
}

#[test]
fn with_after_answers_the_node_is_cordoned_before_the_pods_of_daemon_sets_are_asked() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({"cordon": "AfterAnswers"})));
    cluster.add_agent("agent-1");
    cluster.plan(&mut drain, 0);
    assert_eq!(cluster.plan(&mut drain, 0), ["cordon a"]);
    cluster.cordon("a", true, Some("d"));
    cluster.plan(&mut drain, 0);
    assert_eq!(cluster.plan(&mut drain, 0), ["ask agent-1"]);
}

#[test]
fn a_paused_drain_begins_no_last_phase() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_agent("agent-1");
    cluster.begun(&mut drain);
    cluster.remove("p");
    drain.spec.paused = true;
    for second in 1..3 {
        assert_eq!(cluster.plan(&mut drain, second), [] as [&str; 0]);
    }
    drain.spec.paused = false;
    cluster.plan(&mut drain, 4);
    assert_eq!(cluster.plan(&mut drain, 4), ["ask agent-1"]);
}

#[test]
fn a_pod_that_is_left_alone_keeps_the_pods_of_daemon_sets_from_being_asked() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_agent("agent-1");
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.cancel("p");
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Failed]);
}

#[test]
fn the_rule_for_empty_dirs_holds_for_pods_that_are_asked_last() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    let volumes = json!({"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}});
    cluster.add_pod("a", "agent-1", &owned_by_daemon_set(&volumes));
    assert_eq!(cluster.begun(&mut drain), [] as [&str; 0]);
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
    assert_eq!(drain.status.as_ref().unwrap().blockers[0].reason, "LocalStorage");
}

/// # Attack
///
/// - Attacker: a tenant with many small DaemonSets
/// - Act: fills the bound on the pods that are asked last, so that a storage agent is not asked
/// - Promise: 10
#[test]
fn no_more_pods_of_daemon_sets_are_asked_on_a_node_than_the_bound() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), last(&json!({})));
    let names: Vec<String> = (0..=MAX_DAEMON_SET_PODS).map(|n| format!("agent-{n:02}")).collect();
    let critical = owned_by_daemon_set(&json!({"spec": {"containers": [], "priority": 2_000_000_000}}));
    cluster.add_pod("a", &names[0], &critical);
    for name in &names[1..] {
        cluster.add_agent(name);
    }
    cluster.begun(&mut drain);
    let asked = cluster.plan(&mut drain, 1);
    assert_eq!((asked.len(), asked.last().map(String::as_str)), (MAX_DAEMON_SET_PODS, Some("ask agent-00")));
    for name in names.iter().filter(|name| *name != "agent-01") {
        cluster.remove(name);
    }
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Drained], "the one beyond the bound is left alone");
}

#[test]
fn a_pod_whose_daemon_set_does_not_exist_is_unmanaged() {
    for rule in ["Skip", "Refuse", "Last"] {
        let mut drain = drain(json!({"pods": {"daemonSets": rule}}));
        let mut cluster = Cluster::new(&["a"]);
        cluster.missing_daemon_sets.insert("ns/agent".to_owned());
        cluster.add_agent("agent-1");
        assert_eq!(cluster.begun(&mut drain), [] as [&str; 0], "{rule}");
        let blocker = drain.status.as_ref().unwrap().blockers[0].clone();
        assert_eq!((blocker.reason.as_str(), blocker.object.as_deref()), ("Unmanaged", Some("Pod/agent-1")));
        assert!(blocker.message.contains("a DaemonSet that does not exist"), "{}", blocker.message);
        drain.spec.pods.unmanaged = Some(evacuation_api::UnmanagedRule::Evict);
        let begins_last = cluster.plan(&mut drain, 1);
        let asked = if begins_last.is_empty() { cluster.plan(&mut drain, 1) } else { begins_last };
        assert_eq!(asked, ["ask agent-1"], "{rule}");
    }
}
