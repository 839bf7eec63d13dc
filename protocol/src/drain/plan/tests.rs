use DrainedNodePhase::{Drained, Draining, Failed, Gone, Pending, Withdrawn};
use evacuation_api::{
    CORDONED_BY_ANNOTATION, CordonOwner, DrainVerdict, DrainedNodePhase, WholeSecond, condition_time,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    LivePod, Registered, begin as begin_status, fix_responders,
    testing::{RUNNING, at},
};

mod departures;
mod ends;
mod guide;
mod last;
mod preview;
mod records;
mod returns;

/// A cluster that carries out what a drain plans, as far as a test lets it.
#[derive(Default)]
struct Cluster {
    nodes: Vec<Node>,
    pods: Vec<(String, Pod)>,
    evacuations: Vec<Evacuation>,
    missing_daemon_sets: BTreeSet<String>,
}

fn drain(spec: Value) -> NodeEvacuation {
    let mut spec = spec;
    if spec.get("nodes").is_none() {
        spec["nodes"] = json!({"names": ["a"]});
    }
    serde_json::from_value(json!({
        "metadata": {"name": "d", "uid": "12345678-9", "generation": 1, "creationTimestamp": at(0).to_rfc3339()},
        "spec": spec,
        "status": {"requester": {"user": "alice", "time": at(0).to_rfc3339()}, "pods": {}},
    }))
    .unwrap()
}

impl Cluster {
    fn new(nodes: &[&str]) -> Self {
        let mut cluster = Self::default();
        for name in nodes {
            cluster.add_node(name, &json!({}));
        }
        cluster
    }

    fn add_node(&mut self, name: &str, labels: &Value) {
        let node = json!({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {}});
        self.nodes.push(serde_json::from_value(node).unwrap());
    }

    /// Adds a pod of a ReplicaSet, with fields of its own.
    fn add_pod(&mut self, node: &str, name: &str, more: &Value) {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true});
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner]},
            "spec": {"containers": []}, "status": {"phase": "Running"},
        });
        for (part, fields) in more.as_object().unwrap() {
            pod[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        self.pods.push((node.to_owned(), serde_json::from_value(pod).unwrap()));
    }

    fn world(&self) -> DrainWorld<'_> {
        let seen = self.pods.iter().map(|(node, pod)| PodOnNode {
            node,
            pod,
            evacuations: self
                .evacuations
                .iter()
                .filter(|e| e.spec.target.pod.uid == pod.metadata.uid)
                .collect(),
            budgets: Vec::new(),
            unready: Vec::new(),
            asked_beside: None,
            node_silent_since: None,
            rejected: None,
        });
        DrainWorld {
            nodes: self.nodes.iter().collect(),
            waiting: self.pods.iter().map(|(node, pod)| (node.as_str(), pod)).collect(),
            pods: seen.collect(),
            entries: self.evacuations.iter().collect(),
            rejected_nodes: Vec::new(),
            missing_daemon_sets: self.missing_daemon_sets.clone(),
            attach_failures: Vec::new(),
        }
    }

    /// Plans once, and stores the status.
    fn plan(&self, drain: &mut NodeEvacuation, second: i64) -> Vec<String> {
        let world = self.world();
        let plan = plan(drain, &world, at(second));
        drain.status = Some(plan.status);
        plan.acts.iter().map(brief).collect()
    }

    fn cordon(&mut self, name: &str, cordoned: bool, holders: Option<&str>) {
        let node = self.nodes.iter_mut().find(|node| node.metadata.name.as_deref() == Some(name)).unwrap();
        node.spec.get_or_insert_default().unschedulable = Some(cordoned);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.remove(CORDONED_BY_ANNOTATION);
        annotations.extend(holders.map(|names| (CORDONED_BY_ANNOTATION.to_owned(), names.to_owned())));
    }

    /// Begins the drain of node `a`, which has pods `names`, until it asks them. Returns the acts.
    fn begun(&mut self, drain: &mut NodeEvacuation) -> Vec<String> {
        assert_eq!(self.plan(drain, 0), [] as [&str; 0], "it records that it begins, and no more");
        assert_eq!(self.plan(drain, 0), ["cordon a"], "then it cordons");
        self.cordon("a", true, Some("d"));
        self.plan(drain, 0)
    }

    /// Takes the request for a pod as the server does.
    fn ask(&mut self, drain: &NodeEvacuation, pod: &str) {
        let entry = drain_entry(drain).unwrap();
        let target = evacuation_api::PodTarget { name: pod.to_owned(), uid: Some(pod.to_owned()) };
        let spec = evacuation_api::EvacuationSpec::new(target, vec![entry]);
        let mut status = begin_status(&spec, "alice", &[], at(0));
        let live: &LivePod = &RUNNING;
        let registered: Registered = vec![evacuation_api::ResponderEntry::named("self")].into();
        fix_responders(&mut status, &spec.requesters, live, &registered, false, at(0));
        let mut evacuation = Evacuation::new(pod, spec);
        evacuation.status = Some(status);
        self.evacuations.push(evacuation);
    }

    fn evacuation(&mut self, pod: &str) -> &mut Evacuation {
        self.evacuations.iter_mut().find(|e| e.metadata.name.as_deref() == Some(pod)).unwrap()
    }

    fn cancel(&mut self, pod: &str) {
        let evacuation = self.evacuation(pod);
        let status = evacuation.status.take().unwrap();
        evacuation.status = Some(crate::cancel(&status, "x", at(1)));
    }
}

fn brief(act: &DrainAct<'_>) -> String {
    let pod = |pod: &Pod| pod.metadata.name.clone().unwrap();
    let evacuation = |e: &Evacuation| e.metadata.name.clone().unwrap();
    let node = |node: &Node| node.metadata.name.clone().unwrap();
    match act {
        DrainAct::Cordon(n) => format!("cordon {}", node(n)),
        DrainAct::Release(n) => format!("release {}", node(n)),
        DrainAct::Ask(p, _) => format!("ask {}", pod(p)),
        DrainAct::Join(e, _) => format!("join {}", evacuation(e)),
        DrainAct::Withdraw(e) => format!("withdraw {}", evacuation(e)),
        DrainAct::Remove(p) => format!("remove {}", pod(p)),
        DrainAct::Delete => "delete".to_owned(),
        DrainAct::ReleaseFinalizer => "end".to_owned(),
    }
}

fn phases(drain: &NodeEvacuation) -> Vec<DrainedNodePhase> {
    drain.status.iter().flat_map(|status| &status.nodes).map(|node| node.phase).collect()
}

#[test]
fn a_node_is_recorded_then_cordoned_then_its_pods_are_asked_and_then_it_is_drained() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    cluster.ask(&drain, "p");
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0], "it was asked");
    cluster.pods.clear();
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Drained]);
    let status = drain.status.as_ref().unwrap();
    assert!(status.is_true(DrainConditionType::Drained) && status.is_true(DrainConditionType::Finished));
    assert_eq!((status.pods.total, status.pods.gone), (1, 1));
    assert_eq!(cluster.plan(&mut drain, 3), [] as [&str; 0], "an end is final");
}

#[test]
fn the_entry_is_the_users_and_its_name_is_that_of_no_other_drain() {
    let entry = drain_entry(&drain(json!({"requester": {"deadlineSeconds": 60}}))).unwrap();
    assert_eq!((entry.owner.as_str(), entry.name.as_str()), ("alice", "drain.evacuation.dev/d-12345678"));
    assert_eq!(entry.deadline.map(WholeSecond::time), Some(at(60)));
    assert_eq!(entry.at_deadline, Some(evacuation_api::DeadlineAction::Evict));
    assert_eq!(entry.reason.as_deref(), Some("NodeMaintenance"));
}

#[test]
fn another_drains_evacuation_is_joined_and_a_changed_request_is_changed_there() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    let mut other = drain.clone();
    other.metadata.uid = Some("other".to_owned());
    cluster.ask(&other, "p");
    assert_eq!(cluster.begun(&mut drain), ["join p"]);
    cluster.evacuation("p").spec.requesters.push(drain_entry(&drain).unwrap());
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
    drain.spec.requester.deadline_seconds = Some(60);
    assert_eq!(cluster.plan(&mut drain, 2), ["join p"]);
}

#[test]
fn a_changed_request_is_changed_for_the_pods_of_every_phase() {
    let spec = json!({"phases": [{"selector": {"matchLabels": {"app": "web"}}}]});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    cluster.add_pod("a", "other", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask other"]);
    cluster.ask(&drain, "other");
    cluster.add_pod("a", "web", &json!({"metadata": {"labels": {"app": "web"}}}));
    assert_eq!(cluster.plan(&mut drain, 1), ["ask web"], "the earlier phase has begun again");
    cluster.ask(&drain, "web");
    drain.spec.requester.deadline_seconds = Some(60);
    assert_eq!(cluster.plan(&mut drain, 2), ["join other", "join web"]);
}

#[test]
fn a_pod_that_the_rules_refuse_stays_and_holds_up_no_other() {
    let spec =
        json!({"phases": [{"selector": {"matchLabels": {"app": "web"}}}], "pods": {"daemonSets": "Last"}});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    let agent =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "2", "controller": true}]);
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("a", "agent", &json!({"metadata": {"ownerReferences": agent}}));
    // It is of the first phase, before the others.
    cluster.add_pod("a", "bare", &json!({"metadata": {"ownerReferences": [], "labels": {"app": "web"}}}));
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p"));
    for _ in 0..2 {
        assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0], "the agents serve the pod that stays");
    }
    let status = drain.status.as_ref().unwrap();
    assert_eq!((status.verdict, phases(&drain)), (Some(DrainVerdict::Stuck), vec![Draining]));
    assert_eq!(status.blockers[0].pod.as_deref(), Some("ns/bare"));
    assert_eq!((status.pods.gone, status.pods.blocked), (1, 1));

    let mut evicts = drain.clone();
    evicts.spec.pods.unmanaged = Some(evacuation_api::UnmanagedRule::Evict);
    assert_eq!(cluster.plan(&mut evicts, 2), ["ask bare"], "the way out is the spec");
    drain.spec.requester.deadline_seconds = Some(60);
    cluster.plan(&mut drain, 60);
    assert_eq!(phases(&drain), [Failed], "a deadline ends it");
}

#[test]
fn a_refused_pod_is_left_out_by_its_label_only_where_no_selector_is_replaced() {
    for (selector, is_named) in [
        (json!(null), true),
        (json!({"matchLabels": {"app": "web"}}), false),
        (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), false),
    ] {
        let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"pods": {"selector": selector}})));
        let bare = json!({"metadata": {"ownerReferences": [], "labels": {"app": "web"}}});
        cluster.add_pod("a", "bare", &bare);
        cluster.begun(&mut drain);
        let message = &drain.status.as_ref().unwrap().blockers[0].message;
        assert!(message.contains("kubectl evacuate set d --force; then all pods"), "{message}");
        let set = "; or leave out all pods with app=web: kubectl evacuate set d --pod-selector='app!=web'";
        assert_eq!(message.contains(set), is_named, "{message}");
        assert_eq!(message.contains("--pod-selector"), is_named, "{message}");
    }
}

#[test]
fn a_refused_pod_that_somebody_deletes_is_waited_for_past_the_deadline() {
    let (mut cluster, mut drain) =
        (Cluster::new(&["a"]), drain(json!({"requester": {"deadlineSeconds": 60}})));
    cluster.add_pod("a", "bare", &json!({"metadata": {"ownerReferences": []}}));
    assert_eq!(cluster.begun(&mut drain), [] as [&str; 0]);
    cluster.pods[0].1.metadata.deletion_timestamp = Some(condition_time(at(85)));
    cluster.plan(&mut drain, 60);
    assert_eq!(phases(&drain), [Draining]);
    cluster.pods.clear();
    cluster.plan(&mut drain, 85);
    assert_eq!(phases(&drain), [Drained]);
}

#[test]
fn a_pod_that_was_left_alone_and_that_somebody_deletes_is_waited_for() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    for pod in ["p", "q"] {
        cluster.add_pod("a", pod, &json!({}));
    }
    assert_eq!(cluster.begun(&mut drain), ["ask p", "ask q"]);
    cluster.ask(&drain, "p");
    cluster.ask(&drain, "q");
    cluster.plan(&mut drain, 1);
    cluster.cancel("p");
    cluster.cancel("q");
    cluster.pods[0].1.metadata.deletion_timestamp = Some(condition_time(at(30)));
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Draining]);
    cluster.pods.remove(0);
    cluster.plan(&mut drain, 30);
    assert_eq!(phases(&drain), [Failed], "the other one stays");
}

#[test]
fn a_pod_that_the_rules_no_longer_concern_is_not_counted_as_gone() {
    let spec = json!({"pods": {"daemonSets": "Refuse"}});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    cluster.add_pod("a", "p", &json!({}));
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "2", "controller": true}]);
    cluster.add_pod("a", "agent", &json!({"metadata": {"ownerReferences": owner}}));
    for _ in 0..2 {
        cluster.plan(&mut drain, 0);
    }
    let pods = |drain: &NodeEvacuation| drain.status.as_ref().unwrap().pods;
    assert_eq!((pods(&drain).total, pods(&drain).blocked, pods(&drain).gone), (2, 1, 0));
    drain.spec.pods.daemon_sets = Some(evacuation_api::DaemonSetRule::Skip);
    assert_eq!(cluster.plan(&mut drain, 1), ["cordon a"]);
    assert_eq!((pods(&drain).total, pods(&drain).waiting, pods(&drain).gone), (1, 1, 0));
}

#[test]
fn pods_on_a_node_that_shuts_down_are_not_asked_before_the_deadline_or_the_end_of_the_shutdown() {
    let shutdown = json!({"type": "GracefulNodeShutdownInProgress", "status": "True",
        "lastTransitionTime": at(0).to_rfc3339()});
    for (deadline, asked_at) in [(None, 600), (Some(60), 60)] {
        let (mut cluster, mut drain) =
            (Cluster::new(&["a"]), drain(json!({"requester": {"deadlineSeconds": deadline}})));
        cluster.nodes[0].status = serde_json::from_value(json!({"conditions": [shutdown]})).unwrap();
        cluster.add_pod("a", "p", &json!({}));
        assert_eq!(cluster.begun(&mut drain), [] as [&str; 0]);
        let status = drain.status.as_ref().unwrap();
        assert_eq!(status.verdict, Some(DrainVerdict::Slow));
        assert_eq!(status.blockers[0].reason, "NodeShuttingDown");
        assert_eq!(cluster.plan(&mut drain, asked_at - 1), [] as [&str; 0]);
        assert_eq!(cluster.plan(&mut drain, asked_at), ["ask p"], "{deadline:?}");
    }
}

#[test]
fn phases_follow_one_another_and_the_pods_that_no_phase_picks_come_last() {
    let spec = json!({"phases": [{"selector": {"matchLabels": {"app": "web"}}}, {"minPriority": 5}]});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    cluster.add_pod("a", "rest", &json!({}));
    cluster.add_pod("a", "high", &json!({"spec": {"priority": 9}}));
    cluster.add_pod("a", "web", &json!({"metadata": {"labels": {"app": "web"}}, "spec": {"priority": 9}}));
    assert_eq!(cluster.begun(&mut drain), ["ask web"]);
    for (gone, next) in [("web", "ask high"), ("high", "ask rest")] {
        cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some(gone));
        assert_eq!(cluster.plan(&mut drain, 1), [next]);
    }
}

#[test]
fn no_more_pods_are_asked_at_a_time_than_the_limit() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"maxParallel": {"pods": 2}})));
    for name in ["p1", "p2", "p3"] {
        cluster.add_pod("a", name, &json!({}));
    }
    assert_eq!(cluster.begun(&mut drain), ["ask p1", "ask p2"]);
    cluster.ask(&drain, "p1");
    cluster.ask(&drain, "p2");
    assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p1"));
    assert_eq!(cluster.plan(&mut drain, 2), ["ask p3"]);
}

#[test]
fn a_drain_of_which_a_pod_is_gone_has_begun_and_waits_only_while_it_is_paused() {
    for (paused, expected) in [(false, DrainVerdict::Draining), (true, DrainVerdict::Waiting)] {
        let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"maxParallel": {"pods": 1}})));
        cluster.add_pod("a", "p", &json!({}));
        cluster.add_pod("a", "q", &json!({}));
        assert_eq!(cluster.begun(&mut drain), ["ask p"]);
        cluster.ask(&drain, "p");
        cluster.plan(&mut drain, 1);
        cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p"));
        drain.spec.paused = paused;
        cluster.plan(&mut drain, 2);
        let status = drain.status.as_ref().unwrap();
        assert_eq!((status.pods.gone, status.pods.waiting), (1, 1));
        assert_eq!((status.verdict, status.nodes[0].verdict), (Some(expected), expected), "{paused}");
    }
}

#[test]
fn nodes_begin_in_their_order_within_the_limits() {
    let nodes = json!({"names": ["c", "a", "b", "d"]});
    let zone = |limit| json!({"key": "zone", "nodes": limit});
    for (limits, expected) in [
        (json!({}), [Draining, Draining, Draining, Draining]),
        (json!({"nodes": 2}), [Draining, Draining, Pending, Pending]),
        (json!({"perTopologyKey": zone(1)}), [Draining, Draining, Pending, Pending]),
        (json!({"perTopologyKey": zone(1), "nodes": 1}), [Draining, Pending, Pending, Pending]),
    ] {
        let mut cluster = Cluster::default();
        for (name, zone) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")] {
            cluster.add_node(name, &json!({"zone": zone}));
        }
        let mut drain = drain(json!({"nodes": nodes, "maxParallel": limits}));
        cluster.plan(&mut drain, 0);
        assert_eq!(phases(&drain), expected, "{limits}");
    }
}

#[test]
fn an_uncordon_by_someone_else_takes_the_requests_back_and_ends_the_drain_of_the_node() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.plan(&mut drain, 1);
    cluster.cordon("a", false, Some("d"));
    assert_eq!(cluster.plan(&mut drain, 2), ["withdraw p"]);
    assert_eq!(phases(&drain), [Draining], "until the requests are taken back");
    cluster.cancel("p");
    assert_eq!(cluster.plan(&mut drain, 3), ["release a"]);
    cluster.cordon("a", false, None);
    assert_eq!(cluster.plan(&mut drain, 4), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Withdrawn]);
    assert!(drain.status.as_ref().unwrap().is_true(DrainConditionType::Failed));
}

#[test]
fn a_cordon_of_another_drain_is_joined_before_anything_is_asked() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.cordon("a", true, Some("other"));
    cluster.plan(&mut drain, 0);
    assert_eq!(cluster.plan(&mut drain, 0), ["cordon a"]);
    cluster.cordon("a", true, Some("other,d"));
    assert_eq!(cluster.plan(&mut drain, 0), ["ask p"]);
}

#[test]
fn a_node_that_was_deleted_or_replaced_is_gone_when_its_pods_are() {
    for replaced in [false, true] {
        let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
        cluster.add_pod("a", "p", &json!({}));
        cluster.begun(&mut drain);
        if replaced {
            cluster.nodes[0].metadata.uid = Some("later".to_owned());
        } else {
            cluster.nodes.clear();
            assert_eq!(cluster.plan(&mut drain, 1), [] as [&str; 0]);
            assert_eq!(phases(&drain), [Draining], "its pods are still there");
        }
        cluster.pods.clear();
        assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0]);
        assert_eq!(phases(&drain), [Gone]);
        assert!(drain.status.as_ref().unwrap().is_true(DrainConditionType::Drained));
    }
}

#[test]
fn a_node_that_never_was_is_a_failure_and_no_success() {
    let (cluster, mut drain) = (Cluster::new(&[]), drain(json!({})));
    cluster.plan(&mut drain, 0);
    assert_eq!(phases(&drain), [Failed]);
    let status = drain.status.as_ref().unwrap();
    assert!(status.is_true(DrainConditionType::Failed), "{status:?}");
    assert!(status.message.as_ref().unwrap().contains("a: there is no node of this name"), "{status:?}");
}

#[test]
fn a_pod_that_was_left_alone_fails_its_node_and_is_not_asked_again() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.cancel("p");
    assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Failed]);
}

#[test]
fn a_deleted_drain_takes_back_waits_for_those_who_were_asked_releases_and_ends() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.plan(&mut drain, 1);
    drain.metadata.deletion_timestamp = Some(condition_time(at(2)));
    assert_eq!(cluster.plan(&mut drain, 2), ["withdraw p"]);
    cluster.cancel("p");
    assert_eq!(cluster.plan(&mut drain, 3), [] as [&str; 0], "the app was asked and does not know");
    assert_eq!(cluster.plan(&mut drain, 31), ["release a"], "it is waited for no longer than 30 s");
    cluster.cordon("a", false, None);
    assert_eq!(cluster.plan(&mut drain, 32), ["end"]);
}

#[test]
fn a_deleted_drain_is_planned_again_after_its_nodes_are_released() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.begun(&mut drain);
    drain.metadata.deletion_timestamp = Some(condition_time(at(2)));
    cluster.plan(&mut drain, 2);
    // The release failed, and the status that is planned is the stored one.
    let world = cluster.world();
    let again = plan(&drain, &world, at(3));
    assert_eq!(Some(&again.status), drain.status.as_ref());
    assert_eq!(again.acts.iter().map(brief).collect::<Vec<_>>(), ["release a"]);
    assert_eq!(again.wake_at, Some(at(4)));
}

#[test]
fn an_eviction_that_was_accepted_keeps_a_deleted_drain_from_nothing() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    let eviction = json!({"attempts": 1, "inFlight": false, "accepted": true});
    cluster.evacuation("p").status.as_mut().unwrap().eviction =
        Some(serde_json::from_value(eviction).unwrap());
    drain.metadata.deletion_timestamp = Some(condition_time(at(2)));
    assert_eq!(cluster.plan(&mut drain, 2), ["release a"], "the pod goes, and may take its time");
}

#[test]
fn nothing_begins_before_the_window_opens_or_while_the_drain_is_paused() {
    let window = json!({"schedule": "0 1 * * *", "durationSeconds": 3600});
    let (cluster, mut waiting) = (Cluster::new(&["a"]), drain(json!({"requester": {"window": window}})));
    assert_eq!(cluster.plan(&mut waiting, 0), [] as [&str; 0]);
    assert_eq!(phases(&waiting), []);
    assert_eq!(waiting.status.as_ref().unwrap().verdict, Some(DrainVerdict::Waiting));
    let plan = plan(&waiting, &cluster.world(), at(0));
    assert_eq!(plan.wake_at, Some(at(3600)));
    cluster.plan(&mut waiting, 3600);
    assert_eq!(phases(&waiting), [Draining]);

    let mut paused = drain(json!({"paused": true}));
    cluster.plan(&mut paused, 0);
    assert_eq!(phases(&paused), [Pending]);
    assert!(paused.status.as_ref().unwrap().is_true(DrainConditionType::Paused));
}

#[test]
fn completed_pods_are_deleted_and_late_ones_treated_as_the_spec_says() {
    let late = json!({"metadata": {"creationTimestamp": at(5).to_rfc3339()}});
    for (rule, expected) in [("Evacuate", vec!["ask late", "remove done"]), ("Skip", vec!["remove done"])] {
        let mut drain = drain(json!({"pods": {"late": rule}}));
        let mut cluster = Cluster::new(&["a"]);
        cluster.add_pod("a", "done", &json!({"status": {"phase": "Succeeded"}}));
        cluster.begun(&mut drain);
        cluster.add_pod("a", "late", &late);
        assert_eq!(cluster.plan(&mut drain, 6), ["remove done"], "{rule}: a round is recorded first");
        assert_eq!(cluster.plan(&mut drain, 6), expected, "{rule}");
    }
}

#[test]
fn a_pod_that_terminates_keeps_its_grace_period_and_is_waited_for() {
    let mut drain = drain(json!({"requester": {"gracePeriodSeconds": 5}}));
    let mut cluster = Cluster::new(&["a"]);
    cluster.add_pod("a", "p", &json!({"metadata": {"deletionTimestamp": at(3600).to_rfc3339()}}));
    assert_eq!(cluster.begun(&mut drain), [] as [&str; 0], "an eviction would shorten it");
    assert_eq!(cluster.plan(&mut drain, 1800), [] as [&str; 0]);
    let pods = drain.status.as_ref().unwrap().pods;
    assert_eq!((pods.total, pods.evicting, phases(&drain)), (1, 1, vec![Draining]));
    cluster.pods.clear();
    cluster.plan(&mut drain, 1801);
    assert_eq!(phases(&drain), [Drained]);
}

#[test]
fn a_node_that_cannot_be_cordoned_is_named_as_what_holds_the_drain() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.plan(&mut drain, 0);
    let rejected = RejectedNode { node: "a", message: "nodes is forbidden", since: at(0) };
    let world = DrainWorld { rejected_nodes: vec![rejected], ..cluster.world() };
    let status = plan(&drain, &world, at(1)).status;
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck));
    let [blocker] = &status.blockers[..] else { panic!("{status:?}") };
    assert_eq!((blocker.reason.as_str(), blocker.pod.as_deref()), ("NodeRejected", None));
    assert!(blocker.message.contains("nodes is forbidden"), "{blocker:?}");
}

#[test]
fn the_blocker_of_a_failed_node_stays_while_other_nodes_are_drained() {
    let nodes = json!({"names": ["a", "b"]});
    let (mut cluster, mut drain) = (Cluster::new(&["a", "b"]), drain(json!({"nodes": nodes})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("b", "q", &json!({}));
    cluster.plan(&mut drain, 0);
    cluster.cordon("a", true, Some("d"));
    cluster.cordon("b", true, Some("d"));
    cluster.ask(&drain, "p");
    cluster.ask(&drain, "q");
    cluster.cancel("p");
    for second in 1..4 {
        cluster.plan(&mut drain, second);
        assert_eq!(phases(&drain), [Failed, Draining]);
        let blockers = &drain.status.as_ref().unwrap().blockers;
        assert_eq!(blockers.first().and_then(|b| b.pod.as_deref()), Some("ns/p"), "{second}: {blockers:?}");
    }
}

#[test]
fn a_window_that_changes_after_the_beginning_changes_no_deadline() {
    let (cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"requester": {"deadlineSeconds": 60}})));
    cluster.plan(&mut drain, 0);
    drain.spec.requester.window =
        serde_json::from_value(json!({"schedule": "0 1 * * *", "durationSeconds": 3600})).unwrap();
    cluster.plan(&mut drain, 1);
    assert_eq!(phases(&drain), [Draining]);
    assert_eq!(drain_entry(&drain).unwrap().deadline.map(WholeSecond::time), Some(at(60)));
}

#[test]
fn requests_for_pods_that_the_rules_no_longer_pick_are_taken_back() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({"metadata": {"labels": {"app": "web"}}}));
    cluster.add_pod("a", "q", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.ask(&drain, "q");
    drain.spec.pods.selector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    assert_eq!(cluster.plan(&mut drain, 1), ["withdraw q"]);
    cluster.cordon("a", false, Some("d"));
    assert_eq!(cluster.plan(&mut drain, 2), ["withdraw p", "withdraw q"], "an uncordon takes all back");
}

#[test]
fn a_request_that_arrives_after_the_uncordon_is_taken_back_too() {
    let (mut cluster, mut drain) =
        (Cluster::new(&["a", "b"]), drain(json!({"nodes": {"names": ["a", "b"]}})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("b", "q", &json!({}));
    cluster.plan(&mut drain, 0);
    for name in ["a", "b"] {
        cluster.cordon(name, true, Some("d"));
    }
    cluster.plan(&mut drain, 1);
    cluster.cordon("a", false, None);
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Withdrawn, Draining]);
    cluster.ask(&drain, "p");
    assert_eq!(cluster.plan(&mut drain, 3), ["withdraw p", "ask q"]);
}

#[test]
fn an_entry_that_was_taken_out_while_others_ask_on_is_not_made_again() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    let evacuation = cluster.evacuation("p");
    evacuation.spec.requesters = vec![Requester::named("a.b/other")];
    evacuation.status.as_mut().unwrap().requesters[0].left_time = Some(at(1).into());
    assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Failed]);
}

#[test]
fn the_pods_of_a_node_that_registers_again_are_left_alone_and_the_drain_says_so() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.nodes[0].metadata.uid = Some("later".to_owned());
    assert_eq!(cluster.plan(&mut drain, 1), ["withdraw p"]);
    cluster.cancel("p");
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Withdrawn]);
    assert!(drain.status.as_ref().unwrap().is_true(DrainConditionType::Failed));
}

#[test]
fn the_end_of_another_drains_cordon_takes_nothing_back() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"cordon": "Never"})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.cordon("a", true, Some("other"));
    cluster.plan(&mut drain, 0);
    assert_eq!(cluster.plan(&mut drain, 1), ["ask p"]);
    cluster.ask(&drain, "p");
    cluster.cordon("a", false, None);
    assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0]);
    assert_eq!(phases(&drain), [Draining]);
}

#[test]
fn a_selector_that_picks_no_node_ends_the_drain_unless_it_follows() {
    for (follow, ended) in [(false, true), (true, false)] {
        let nodes = json!({"selector": {"matchLabels": {"pool": "old"}}, "follow": follow});
        let (cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"nodes": nodes})));
        cluster.plan(&mut drain, 0);
        assert_eq!(drain.status.as_ref().unwrap().is_true(DrainConditionType::Failed), ended, "{follow}");
    }
}

#[test]
fn a_deadline_ends_the_drain_of_a_node_on_which_nothing_could_be_asked() {
    let (mut cluster, mut drain) =
        (Cluster::new(&["a"]), drain(json!({"requester": {"deadlineSeconds": 60}})));
    cluster.add_pod("a", "bare", &json!({"metadata": {"ownerReferences": []}}));
    cluster.plan(&mut drain, 0);
    let world = cluster.world();
    assert_eq!(plan(&drain, &world, at(58)).wake_at, Some(at(60)));
    cluster.plan(&mut drain, 59);
    assert_eq!(phases(&drain), [Draining]);
    cluster.plan(&mut drain, 60);
    assert_eq!(phases(&drain), [Failed]);
    assert_eq!(drain.status.as_ref().unwrap().blockers[0].pod.as_deref(), Some("ns/bare"));
}

#[test]
fn a_pod_whose_request_is_rejected_keeps_no_other_pod_from_being_asked() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"maxParallel": {"pods": 1}})));
    cluster.add_pod("a", "p0", &json!({}));
    cluster.add_pod("a", "p1", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask p0"]);
    let mut world = cluster.world();
    world.pods[0].rejected = Some(("the namespace has too many evacuations", at(0)));
    let plan = plan(&drain, &world, at(1));
    assert_eq!(plan.acts.iter().map(brief).collect::<Vec<_>>(), ["ask p1"]);
}

#[test]
fn what_the_requests_lose_is_told_with_them_and_not_again() {
    let rules = json!({"pods": {"emptyDirData": "Delete", "unmanaged": "Evict"}});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(rules));
    let scratch =
        json!({"metadata": {"ownerReferences": []}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    cluster.add_pod("a", "p", &scratch);
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    let losses = |cluster: &Cluster, drain: &NodeEvacuation| plan(drain, &cluster.world(), at(1)).losses;
    assert_eq!(losses(&cluster, &drain), [DrainWarning::LocalStorage, DrainWarning::Unmanaged].into());
    cluster.ask(&drain, "p");
    assert_eq!(losses(&cluster, &drain), BTreeSet::new());
}
